// Package secret holds settings that may contain passwords and tokens, such that they do
// not get out by accident: printed, logged or encoded, they show that there is something,
// and not what. Whoever needs the secret itself asks for it by Reveal, which can be
// searched for.
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

// hidden stands in the place of a secret.
const hidden = "xxxxx"

// URL is a URL with which others could do what its owner may: the name and password in
// it, and its query.
type URL struct{ text string }

// NewURL returns a URL that is not shown. It need not be one that can be parsed.
func NewURL(text string) URL { return URL{text} }

// Reveal returns all of it.
func (u URL) Reveal() string { return u.text }

// String is the URL without its secrets.
func (u URL) String() string {
	if u.text == "" {
		return ""
	}
	parsed, err := url.Parse(u.text)
	if err != nil {
		return hidden
	}
	shown := url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path, RawPath: parsed.RawPath}
	if parsed.Opaque != "" {
		shown.Opaque = hidden
	}
	if parsed.User != nil {
		shown.User = url.User(hidden)
	}
	if parsed.RawQuery != "" || parsed.ForceQuery {
		shown.RawQuery = hidden
	}
	if parsed.Fragment != "" {
		shown.Fragment = hidden
	}
	return shown.String()
}

// Origin is the URL as the place that something came from: without its secrets, and
// without what stands for them.
func (u URL) Origin() string {
	parsed, err := url.Parse(u.text)
	if err != nil {
		return hidden
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String()
}

// Format implements fmt.Formatter, for every verb.
func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// LogValue implements slog.LogValuer.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText implements encoding.TextMarshaler. What it returns can't be used any more to
// ask for anything.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *URL) UnmarshalText(text []byte) error {
	u.text = string(text)
	return nil
}

// parts are the texts in the URL that nobody else may read, in all the forms in which they
// may be written.
func (u URL) parts() []string {
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

// Header are the values of headers, by name. The names may be shown.
type Header struct{ values map[string][]string }

// NewHeader returns headers whose values are not shown.
func NewHeader(values map[string][]string) Header { return Header{values} }

// Reveal returns all of it.
func (h Header) Reveal() map[string][]string { return h.values }

// String is the names.
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
		shown[name] = []string{hidden}
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

// shortest is the length below which a text is too common to be looked for in another.
const shortest = 4

// Clean returns err as others may read it: without the secrets of a URL and its headers,
// which libraries put into the texts of errors. An error without any is returned as it is.
func Clean(err error, u URL, h Header) error {
	if err == nil {
		return nil
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it says what was asked for, and where
	}
	parts := u.parts()
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
		if len(part) >= shortest {
			text = strings.ReplaceAll(text, part, hidden)
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
