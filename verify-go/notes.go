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

// Note is a signed checkpoint; raw holds its six lines.
type Note struct {
	raw       string
	origin    string
	size      int64
	root      digest
	lost      int64
	keyID     string
	signature []byte
	message   []byte
}

var errNote = errors.New("not a note of six lines in their one spelling")

// readNote reads exactly one note (T-2, T-3).
func readNote(text string) (*Note, error) {
	lines := strings.SplitAfter(text, "\n")
	if len(lines) != 7 || lines[6] != "" || !utf8.ValidString(text) {
		return nil, errNote
	}
	for i := range lines[:6] {
		if len(lines[i]) > maxNoteLine {
			return nil, errNote
		}
		lines[i] = strings.TrimSuffix(lines[i], "\n")
	}
	size, err := plain(lines[1])
	lost, err2 := plain(strings.TrimPrefix(lines[3], "lost "))
	if err != nil || err2 != nil || !strings.HasPrefix(lines[3], "lost ") {
		return nil, errNote
	}
	root, blob := base64Of(lines[2]), base64Of(strings.TrimPrefix(lines[5], "— "+lines[0]+" "))
	if len(root) != 32 || lines[4] != "" || !strings.HasPrefix(lines[5], "— "+lines[0]+" ") || len(blob) != 68 {
		return nil, errNote
	}
	message := strings.Join(lines[:4], "\n") + "\n"
	return &Note{text, lines[0], size, digest(root), lost, string(blob[:4]), blob[4:], []byte(message)}, nil
}

// plain reads a count in its one spelling.
func plain(text string) (int64, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 0 || number > maxInt || strconv.FormatInt(number, 10) != text {
		return 0, errNote
	}
	return number, nil
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
