package nodeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// problem is an answer other than 200: its code, and the text for the user.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

func problemf(code int, format string, args ...any) error {
	return &problem{code: code, text: fmt.Sprintf(format, args...)}
}

// fail answers with an error: what went wrong with the node is a 500.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var p *problem
	if errors.As(err, &p) {
		code = p.code
	}
	http.Error(w, err.Error(), code)
}

// sendJSON answers with a value.
func sendJSON(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client may be gone
	return nil
}

// sendText answers with text that no browser takes for a page.
func sendText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text))
}
