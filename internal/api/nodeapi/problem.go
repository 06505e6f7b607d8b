package nodeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// problem is an error with its HTTP status code and a text for the user.
type problem struct {
	code int
	text string
}

func (p *problem) Error() string { return p.text }

func problemf(code int, format string, args ...any) error {
	return &problem{code: code, text: fmt.Sprintf(format, args...)}
}

// fail answers with an error. The status code of an error that is no problem is 500.
func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	var p *problem
	if errors.As(err, &p) {
		code = p.code
	}
	http.Error(w, err.Error(), code)
}

// sendJSON answers with a value as JSON.
func sendJSON(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // the client may be gone
	return nil
}

// sendText answers with text that no browser interprets as HTML.
func sendText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(text))
}
