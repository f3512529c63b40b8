package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Section 10, P-1: what is given.

// Input is what was given, by P-1.
type Input struct {
	receipt    []byte
	proof      []byte
	ledger     io.Reader
	notes      io.Reader
	unreadable string
	files      []*os.File
}

func open(path string) *Input {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return &Input{unreadable: "cannot be read: " + err.Error()}
	case info.IsDir():
		return openDirectory(path)
	case !info.Mode().IsRegular():
		return &Input{unreadable: "neither a directory nor a regular file"}
	}
	return openFile(path)
}

func openDirectory(path string) *Input {
	in := &Input{}
	receipt := in.file(filepath.Join(path, "receipt.json"))
	ledger := in.file(filepath.Join(path, "ledger.jsonl"))
	notes := in.file(filepath.Join(path, "checkpoints"))
	if in.unreadable != "" {
		return in
	}
	if receipt != nil {
		in.takeReceipt(receipt)
	}
	if ledger != nil {
		in.takeLedger(ledger)
		in.notes = bytes.NewReader(nil)
		if notes != nil {
			in.notes = notes
		}
	}
	if in.receipt == nil && in.ledger == nil && in.unreadable == "" {
		in.unreadable = "neither receipt.json nor ledger.jsonl stands in this directory"
	}
	return in
}

func openFile(path string) *Input {
	in := &Input{}
	file := in.file(path)
	if file == nil {
		return in
	}
	first := firstLine(file)
	switch {
	case bytes.Contains(first, []byte(`"format":"docket-proof/`)):
		in.proof = in.all(file, maxProof)
		if !bytes.Contains(in.proof, []byte(`"format":"docket-proof/1"`)) {
			in.unreadable = "a proof of another version"
		}
		in.checkBounds("proof", in.proof, maxProof)
	case bytes.Contains(first, []byte(`"format":"docket-receipt/`)):
		in.takeReceipt(file)
	case bytes.Contains(first, []byte(`"prev":"`)):
		in.takeLedger(file)
	default:
		in.unreadable = "neither a receipt nor a ledger nor a proof"
	}
	return in
}

func (in *Input) takeReceipt(file *os.File) {
	in.receipt = in.all(file, maxReceipt)
	if !bytes.Contains(in.receipt, []byte(`"format":"docket-receipt/1"`)) {
		in.unreadable = "no receipt of a known version"
	}
	in.checkBounds("receipt", in.receipt, maxReceipt)
}

// checkBounds refuses what is larger than a verifier takes.
func (in *Input) checkBounds(name string, data []byte, most int) {
	marks := bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'['}) + bytes.Count(data, []byte{'{'})
	switch {
	case len(data) > most:
		in.unreadable = fmt.Sprintf("the %s is longer than %d bytes", name, most)
	case marks > maxMarks:
		in.unreadable = fmt.Sprintf("the %s holds more than %d of the bytes , [ and {", name, maxMarks)
	}
}

// takeLedger refuses a ledger alone in which no line is whole, unless its fragment is too long to be one.
func (in *Input) takeLedger(file *os.File) {
	in.ledger = file
	first := firstLine(file)
	if in.receipt == nil && !bytes.HasSuffix(first, []byte{'\n'}) && len(first) < maxLine {
		in.unreadable = "a ledger without a whole line"
	}
}

// file opens a regular file, through links; nil where nothing has that name, and where something else has it: that is
// unreadable.
func (in *Input) file(path string) *os.File {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(path + " is no regular file")
	}
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		in.unreadable = "cannot be read: " + err.Error()
		return nil
	}
	in.files = append(in.files, file)
	return file
}

// all reads a file, one byte more than most at the most.
func (in *Input) all(file *os.File, most int64) []byte {
	size := int64(0)
	if info, err := file.Stat(); err == nil {
		size = min(info.Size(), most)
	}
	into := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	_, err := into.ReadFrom(io.LimitReader(file, most+1))
	if err != nil {
		in.unreadable = "cannot be read: " + err.Error()
	}
	return into.Bytes()
}

// firstLine reads the first line, with its LF, within the bound of a receipt; the file stands at its beginning again.
func firstLine(file *os.File) []byte {
	line, _ := bufio.NewReaderSize(io.LimitReader(file, maxReceipt), maxLine).ReadBytes('\n')
	_, _ = file.Seek(0, io.SeekStart)
	return line
}

func (in *Input) close() {
	for _, file := range in.files {
		file.Close()
	}
}
