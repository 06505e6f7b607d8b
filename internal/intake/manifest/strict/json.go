package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// jsonDocuments parses JSON values, one after the other, into the nodes that the YAML
// parser would return for them.
func jsonDocuments(data []byte) ([]Document, *Error) {
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	var docs []Document
	for {
		begin := r.offset
		n, err := r.value(0)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, r.syntaxError(err, begin)
		}
		docs = append(docs, Document{root: n})
	}
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder

	// offset is the end of the last token, and line its line.
	offset int64
	line   int
}

var errTooDeep = errors.New("nested too deeply")

func (r *jsonReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	// No token spans lines, so a token ends in the line in which it begins.
	end := r.dec.InputOffset()
	r.line += bytes.Count(r.data[r.offset:end], []byte("\n"))
	r.offset = end
	return t, nil
}

func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	return r.node(t, depth)
}

// node returns the node whose first token is t.
func (r *jsonReader) node(t json.Token, depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line}
	switch t := t.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if t == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		return n, r.fill(n, depth)
	case string:
		n.Tag, n.Value, n.Style = tagString, t, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = tagInt, t.String()
		if strings.ContainsAny(n.Value, ".eE") {
			n.Tag = tagFloat
		}
	case bool:
		n.Tag, n.Value = tagBool, fmt.Sprint(t)
	default:
		n.Tag = tagNull
	}
	return n, nil
}

// fill reads keys and values until the object or list n ends.
func (r *jsonReader) fill(n *yaml.Node, depth int) error {
	for {
		t, err := r.token()
		if errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if t == json.Delim('}') || t == json.Delim(']') {
			return nil
		}
		c, err := r.node(t, depth+1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, c)
	}
}

// syntaxError returns err with the line of the mistake in the value that begins at an offset.
// The offset of the token reader is not exact, so the value is parsed once more.
func (r *jsonReader) syntaxError(err error, begin int64) *Error {
	line := r.line
	text := bytes.TrimRight(r.data, " \t\r\n")
	again := json.Unmarshal(text[min(begin, int64(len(text))):], new(json.RawMessage))
	if syntax, ok := errors.AsType[*json.SyntaxError](again); ok && !errors.Is(err, errTooDeep) {
		at := min(begin+max(syntax.Offset-1, 0), int64(len(text)))
		line = 1 + bytes.Count(text[:at], []byte("\n"))
		err = syntax
	}
	return &Error{Line: line, Message: fmt.Sprintf("invalid JSON: %v", err)}
}
