// Command docket-verify checks evidence of supervised agent runs: a run directory, a receipt, a ledger or a proof.
//
// It is written from spec/docket-receipt-1.md alone and shares no code with the program that writes receipts.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

const usage = `usage: verify [--json] [--run-key HEX] [--root HEX] [--operator HEX] PATH
       verify --batch [--run-key HEX] [--root HEX] [--operator HEX] < paths

PATH is a run directory, receipt.json, ledger.jsonl or a proof. With --json the answer is one JSON object; --batch reads
paths, one a line, and prints one JSON object a line. Keys and roots are 64 hex characters.

Exit status: 0 verified, 1 failed, 2 unreadable or a wrong call, 3 incomplete, recovered, unsealed or unfinished.`

var pinForm = regexp.MustCompile(`\A[0-9a-f]{64}\z`)

// Input is what was given, by P-1.
type Input struct {
	receipt    []byte
	proof      []byte
	ledger     io.Reader
	notes      io.Reader
	unreadable string
	files      []*os.File
}

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	var pins Pins
	var paths []string
	asJSON, batch := false, false
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; arg {
		case "--json":
			asJSON = true
		case "--batch":
			batch = true
		case "-h", "--help":
			fmt.Println(usage)
			return 0
		case "--run-key", "--root", "--operator":
			i++
			if i == len(args) || !pinForm.MatchString(args[i]) {
				return wrong(arg + " takes 64 lower-case hex characters")
			}
			*map[string]*string{"--run-key": &pins.runKey, "--root": &pins.root, "--operator": &pins.operator}[arg] = args[i]
		default:
			if len(arg) > 1 && arg[0] == '-' {
				return wrong("no such option: " + arg)
			}
			paths = append(paths, arg)
		}
	}
	if batch && len(paths) == 0 {
		return answerAll(pins)
	}
	if batch || len(paths) != 1 {
		return wrong("one PATH is needed, or --batch and paths on standard input")
	}
	answer := verifyPath(paths[0], pins)
	if asJSON {
		printJSON(answer)
	} else {
		printText(answer)
	}
	return exitStatus(answer.Verdict)
}

func wrong(says string) int {
	fmt.Fprintln(os.Stderr, "verify: "+says)
	fmt.Fprintln(os.Stderr, usage)
	return 2
}

func answerAll(pins Pins) int {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		answer := verifyPath(lines.Text(), pins)
		answer.Path = lines.Text()
		printJSON(answer)
	}
	return 0
}

func exitStatus(verdict string) int {
	switch verdict {
	case "verified":
		return 0
	case "failed":
		return 1
	case "unreadable":
		return 2
	}
	return 3
}

func printJSON(answer Answer) {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	_ = out.Encode(answer)
}

func printText(answer Answer) {
	fmt.Println(answer.Verdict)
	for _, check := range answer.Checks {
		if check.Status == "fail" {
			fmt.Printf("  fail %s: %q\n", check.ID, check.Detail)
		}
	}
	skipped := 0
	for _, check := range answer.Checks {
		if check.Status == "skip" {
			skipped++
		}
	}
	fmt.Printf("  %d of %d checks did not run (--json says why)\n", skipped, len(answer.Checks))
	for _, remark := range answer.Remarks {
		fmt.Println("  " + remark)
	}
}

func verifyPath(path string, pins Pins) Answer {
	input := open(path)
	defer input.close()
	return verify(input, pins)
}

// ── P-1: what is given ──

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
	if file := in.file(filepath.Join(path, "receipt.json")); file != nil {
		in.takeReceipt(file)
	}
	if file := in.file(filepath.Join(path, "ledger.jsonl")); file != nil {
		in.takeLedger(file)
		in.notes = bytes.NewReader(nil)
		if notes := in.file(filepath.Join(path, "checkpoints")); notes != nil {
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
		in.unreadable = "cannot be read"
		return in
	}
	first := firstLine(file)
	switch {
	case bytes.Contains(first, []byte(`"format":"docket-proof/`)):
		in.proof = in.all(file, maxProof)
		if !bytes.Contains(in.proof, []byte(`"format":"docket-proof/1"`)) {
			in.unreadable = "a proof of another version"
		}
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
}

// takeLedger refuses a ledger alone in which no line is whole, unless its fragment is too long to be one.
func (in *Input) takeLedger(file *os.File) {
	in.ledger = file
	first := firstLine(file)
	if in.receipt == nil && !bytes.HasSuffix(first, []byte{'\n'}) && len(first) < maxLine {
		in.unreadable = "a ledger without a whole line"
	}
}

// file opens a regular file, through links; nil where there is none.
func (in *Input) file(path string) *os.File {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		in.unreadable = "cannot be read: " + err.Error()
		return nil
	}
	in.files = append(in.files, file)
	return file
}

// all reads a file, one byte more than most at the most.
func (in *Input) all(file *os.File, most int64) []byte {
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		in.unreadable = "cannot be read: " + err.Error()
	}
	return data
}

// firstLine reads the first line, with its LF, within the bound of a receipt; the file stands at its beginning again.
func firstLine(file *os.File) []byte {
	line, _ := bufio.NewReader(io.LimitReader(file, maxReceipt)).ReadBytes('\n')
	_, _ = file.Seek(0, io.SeekStart)
	return line
}

func (in *Input) close() {
	for _, file := range in.files {
		file.Close()
	}
}
