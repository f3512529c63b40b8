// Command docket-verify checks evidence of supervised agent runs: a run directory, a receipt, a ledger or a proof.
//
// It is written from spec/docket-receipt-1.md alone and shares no code with the program that writes receipts.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
)

const usage = `usage: verify [--json] [--run-key HEX] [--root HEX] [--operator HEX] PATH
       verify --batch [--run-key HEX] [--root HEX] [--operator HEX] < paths

PATH is a run directory, receipt.json, ledger.jsonl or a proof. With --json the answer is one JSON object; --batch reads
paths, one a line, and prints one JSON object a line. Keys and roots are 64 hex characters.

Exit status: 0 verified, 1 failed, 2 unreadable or a wrong call, 3 incomplete, recovered, unsealed or unfinished.`

// softLimit is where the collector works harder rather than let memory grow.
const softLimit = 128 << 20

var pinForm = regexp.MustCompile(`\A[0-9a-f]{64}\z`)

func main() {
	debug.SetMemoryLimit(softLimit)
	os.Exit(run(os.Args[1:]))
}

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
