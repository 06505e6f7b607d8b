// Package secret has types for settings that may contain passwords and tokens. Printed, logged
// or encoded, such a setting shows a placeholder instead of its secret parts. Only Reveal returns
// the secret: a search for it finds all code that uses secrets.
package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// placeholder is printed instead of a secret.
const placeholder = "xxxxx"

// URL is a URL with secret parts: the name and password in it, its query and its fragment.
type URL struct{ text string }

// NewURL makes a URL secret. A text that can't be parsed as a URL is secret as a whole.
func NewURL(text string) URL { return URL{text} }

// Reveal returns the URL with its secrets.
func (u URL) Reveal() string { return u.text }

// String returns the URL with placeholders instead of its secrets.
func (u URL) String() string {
	if u.text == "" {
		return ""
	}
	parsed, err := url.Parse(u.text)
	if err != nil {
		return placeholder
	}
	shown := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path, RawPath: parsed.RawPath}
	if parsed.Opaque != "" {
		shown.Opaque = placeholder
	}
	if parsed.User != nil {
		shown.User = url.User(placeholder)
	}
	if parsed.RawQuery != "" || parsed.ForceQuery {
		shown.RawQuery = placeholder
	}
	if parsed.Fragment != "" {
		shown.Fragment = placeholder
	}
	return shown.String()
}

// Origin returns scheme, host and path of the URL, without secrets or placeholders: the origin
// of a manifest, for users.
func (u URL) Origin() string {
	parsed, err := url.Parse(u.text)
	if err != nil {
		return placeholder
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

// Format implements fmt.Formatter, for every verb.
func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// LogValue implements slog.LogValuer.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText implements encoding.TextMarshaler. The text has no secrets, so it can't be used
// for requests.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *URL) UnmarshalText(text []byte) error {
	u.text = string(text)
	return nil
}

// secretParts returns the secret texts in the URL, in all the forms in which an error may quote
// them.
func (u URL) secretParts() []string {
	parsed, err := url.Parse(u.text)
	if err != nil {
		return []string{u.text}
	}
	out := []string{u.text, parsed.RawQuery, parsed.Fragment, parsed.Opaque}
	if parsed.User != nil {
		password, _ := parsed.User.Password()
		out = append(out, parsed.User.String(), password, url.QueryEscape(password), url.PathEscape(password))
		if password == "" {
			out = append(out, parsed.User.Username()) // a token may stand there by itself
		}
	}
	for _, values := range parsed.Query() {
		for _, value := range values {
			out = append(out, value, url.QueryEscape(value))
		}
	}
	return out
}

// Header holds HTTP headers whose values are secret. Their names are not.
type Header struct{ values map[string][]string }

// NewHeader makes the values of headers secret.
func NewHeader(values map[string][]string) Header { return Header{values} }

// Reveal returns the headers with their values.
func (h Header) Reveal() map[string][]string { return h.values }

// String returns the names of the headers.
func (h Header) String() string {
	return strings.Join(slices.Sorted(maps.Keys(h.values)), ", ")
}

// Format implements fmt.Formatter, for every verb.
func (h Header) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(h.String())) }

// LogValue implements slog.LogValuer.
func (h Header) LogValue() slog.Value { return slog.StringValue(h.String()) }

// MarshalJSON implements json.Marshaler.
func (h Header) MarshalJSON() ([]byte, error) {
	shown := map[string][]string{}
	for name := range h.values {
		shown[name] = []string{placeholder}
	}
	return json.Marshal(shown)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Header) UnmarshalJSON(text []byte) error {
	var values map[string][]string
	if err := json.Unmarshal(text, &values); err != nil {
		return err
	}
	if len(values) > 0 { // none is none, however it is written
		h.values = values
	}
	return nil
}

// minPartLen is the least length of a secret text that Clean looks for: a shorter text may be in
// any error by chance.
const minPartLen = 4

// Clean removes the secrets of a URL and its headers from the text of an error: libraries put
// them there. An error without secrets is returned as it is.
func Clean(err error, u URL, h Header) error {
	if err == nil {
		return nil
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the text of wrapped begins with the URL
	}
	parts := u.secretParts()
	for _, values := range h.values {
		for _, value := range values {
			parts = append(parts, value)
			parts = append(parts, strings.Fields(value)...) // the scheme of an authorization, and the token
		}
	}
	// The longest first: it may hold another.
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	text := err.Error()
	for _, part := range parts {
		if len(part) >= minPartLen {
			text = strings.ReplaceAll(text, part, placeholder)
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
