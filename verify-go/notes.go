package main

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Section 4, T-2 to T-4: a signed note.

const maxNoteLine = 1024

// Note is a signed checkpoint; raw holds its five lines.
type Note struct {
	raw       string
	origin    string
	size      int64
	root      digest
	keyID     string
	signature []byte
	message   []byte
}

var errNote = errors.New("not a note of five lines in their one spelling")

// readNote reads exactly one note (T-2, T-3).
func readNote(text string) (*Note, error) {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) != 6 || lines[5] != "" || !utf8.ValidString(text) {
		return nil, errNote
	}
	for i := range lines[:5] {
		if len(lines[i]) > maxNoteLine {
			return nil, errNote
		}
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || size > maxInt || strconv.FormatInt(size, 10) != lines[1] {
		return nil, errNote
	}
	root, blob := base64Of(lines[2]), base64Of(strings.TrimPrefix(lines[4], "— "+lines[0]+" "))
	if len(root) != 32 || lines[3] != "" || !strings.HasPrefix(lines[4], "— "+lines[0]+" ") || len(blob) != 68 {
		return nil, errNote
	}
	message := strings.Join(lines[:3], "\n") + "\n"
	return &Note{text, lines[0], size, digest(root), string(blob[:4]), blob[4:], []byte(message)}, nil
}

func base64Of(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(data) != text {
		return nil
	}
	return data
}

// signedBy says whether key made the note (T-4).
func (n *Note) signedBy(key []byte) bool {
	id := sha256.Sum256(append(append([]byte(n.origin), '\n', 1), key...))
	return n.keyID == string(id[:4]) && signed(key, n.message, n.signature)
}

func originOf(docket string) string { return "docket/" + docket }
