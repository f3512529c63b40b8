package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// line is a usual end event; what a reader does most.
const line = `{"by":"boundary","data":{"bytes":4321,"call":1,"duration_us":900001,"finish":"stop","first_byte_us":80001,"model":"gpt-5-mini","provider":"openai","provider_request_id":"req_000000000001","reason":"complete","status":200,"tier":"standard","usage":{"cost_usd":"0.00029225","items":[{"kind":"input","per":1000000,"quantity":1001,"unit_usd":"0.25"},{"kind":"output","per":1000000,"quantity":21,"unit_usd":"2"}],"source":"reported"}},"elapsed_us":900451,"hash":"2c305a42e76b8dcd5d1244c4d7b586fa8059515b88fe8058b33c71c8d16d192c","prev":"972b7d9ed6dacd3bf59c51887420968de941f4885f3e628acf2adea4700335b8","private":{"response_sha256":{"salt":"00000000000000000000000000000000","value":"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"}},"seq":2,"ts":"2026-11-30T12:00:00.900451Z","type":"model.response"}`

// decodeAndEncode is the other way to find out whether a line is canonical; Go sorts members and escapes as told.
func decodeAndEncode(data []byte) bool {
	reader := json.NewDecoder(bytes.NewReader(data))
	reader.UseNumber()
	var value any
	if reader.Decode(&value) != nil {
		return false
	}
	var out strings.Builder
	writer := json.NewEncoder(&out)
	writer.SetEscapeHTML(false)
	return writer.Encode(value) == nil && strings.TrimSuffix(out.String(), "\n") == string(data)
}

func TestBothWaysAgreeOnAUsualLineAndOnASpaceTooMany(t *testing.T) {
	spaced := []byte(strings.Replace(line, ":", ": ", 1))
	_, usual := parse([]byte(line))
	_, wrong := parse(spaced)
	if usual != nil || !decodeAndEncode([]byte(line)) {
		t.Error("a canonical line is refused")
	}
	if wrong == nil || decodeAndEncode(spaced) {
		t.Error("a line with a space too many is taken")
	}
}

func BenchmarkRecogniser(b *testing.B) {
	p, data := new(parser), []byte(line)
	for i := 0; i < b.N; i++ {
		if _, err := p.parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeAndEncode(b *testing.B) {
	data := []byte(line)
	for i := 0; i < b.N; i++ {
		if !decodeAndEncode(data) {
			b.Fatal("not canonical")
		}
	}
}
