package strict

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Documents splits a text into its documents. Documents that are empty or hold only
// comments are left out. A document that can't be parsed is an error; the others are
// returned nevertheless.
func Documents(data []byte) ([]Document, []Error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, []Error{{Line: 1, Message: "the text is UTF-16: save it as UTF-8"}}
	}
	start := bytes.TrimLeft(data, " \t\r\n")
	if !bytes.HasPrefix(start, []byte("{")) {
		return yamlDocuments(data)
	}
	// The text looks like JSON, which YAML parsers accept only without tabs. It may still be
	// YAML in flow style.
	docs, jsonErr := jsonDocuments(data)
	if jsonErr == nil {
		return docs, nil
	}
	if docs, errs := yamlDocuments(data); len(errs) == 0 {
		return docs, nil
	}
	return nil, []Error{*jsonErr}
}

func yamlDocuments(data []byte) ([]Document, []Error) {
	var docs []Document
	var errs []Error
	for _, c := range chunks(data) {
		d, err := c.parse()
		docs = append(docs, d...)
		if err != nil {
			errs = append(errs, *err)
		}
	}
	return docs, errs
}

// chunk is the text from one document marker to the next.
type chunk struct {
	text       []byte
	lineOffset int // lines before it
}

// chunks splits a text at lines that begin with `---`. In YAML such a line is a document
// marker in any context, so no parser is needed, and a syntax error in one document
// does not affect the next.
func chunks(data []byte) []chunk {
	var all []chunk
	begin, shift, line := 0, 0, 0
	for at := 0; at < len(data); line++ {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if at > begin && isMarker(data[at:end]) {
			all = append(all, chunk{data[begin:at], shift})
			begin, shift = at, line
		}
		at = end
	}
	return append(all, chunk{data[begin:], shift})
}

func isMarker(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// isBlank reports whether a chunk holds nothing but comments and directives.
func (c chunk) isBlank() bool {
	for line := range bytes.Lines(c.text) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

func (c chunk) parse() ([]Document, *Error) {
	if c.isBlank() {
		return nil, nil
	}
	var docs []Document
	dec := yaml.NewDecoder(bytes.NewReader(c.text))
	for {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return docs, c.syntaxError(err)
		}
		if n.Kind != yaml.DocumentNode || len(n.Content) == 0 || n.Content[0].ShortTag() == tagNull {
			continue
		}
		docs = append(docs, Document{root: n.Content[0], lineOffset: c.lineOffset})
	}
}

// syntaxError turns an error of the parser into an Error with the line of the mistake.
func (c chunk) syntaxError(err error) *Error {
	line, message := 1, strings.TrimPrefix(err.Error(), "yaml: ")
	if m := regexp.MustCompile(`(?s)^line (\d+): (.*)$`).FindStringSubmatch(message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			line = max(n, 1)
		}
		message = m[2]
	}
	if exact := c.brokenLine(); exact > 0 {
		line = exact
	}
	return &Error{Line: line + c.lineOffset, Message: "invalid YAML: " + message}
}

// brokenLine returns the line of the mistake in a chunk that does not parse, or 0. The
// parser often names the beginning of the block around it instead. The lines above the
// mistake parse, and with the line of the mistake they do not, so that a binary search
// finds it. A text that is cut within a quote or a bracket does not parse either, so a
// few more lines are tried before a half is given up.
func (c chunk) brokenLine() int {
	const (
		maxText = 32 << 10 // bytes: a longer text is not worth so many attempts
		ahead   = 10       // lines that are tried after the cut
	)
	if len(c.text) > maxText {
		return 0
	}
	lines := bytes.SplitAfter(c.text, []byte("\n"))
	good, bad := 0, len(lines)
	for bad-good > 1 {
		middle := (good + bad) / 2
		parsed := 0
		for n := middle; n < min(middle+ahead, bad) && parsed == 0; n++ {
			if parses(bytes.Join(lines[:n], nil)) {
				parsed = n
			}
		}
		if parsed > 0 {
			good = parsed
		} else {
			bad = middle
		}
	}
	return bad
}

func parses(text []byte) bool {
	var n yaml.Node
	return yaml.Unmarshal(text, &n) == nil
}
