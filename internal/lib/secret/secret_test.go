package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const text = "https://me:geheim-1@host:8443/pods?token=geheim-2&geheim-3#geheim-4"

func header() Header {
	return NewHeader(map[string][]string{"Authorization": {"Bearer geheim-5"}, "X-Key": {"geheim-6"}})
}

func TestSecretsAreNotShown(t *testing.T) {
	type settings struct {
		URL    URL
		Header Header
	}
	s := settings{NewURL(text), header()}
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("all of it", "url", s.URL, "header", s.Header, "settings", s, "pointer", &s)
	}
	shown := []string{string(encoded), log.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown = append(shown, fmt.Sprintf(verb, s), fmt.Sprintf(verb, &s), fmt.Sprintf(verb, s.URL), fmt.Sprintf(verb, s.Header))
	}
	for _, text := range shown {
		for _, secret := range []string{"geheim", fmt.Sprintf("%x", "geheim")} {
			if strings.Contains(text, secret) {
				t.Errorf("a secret is shown: %s", text)
			}
		}
	}
	if want := "https://xxxxx@host:8443/pods?xxxxx#xxxxx"; s.URL.String() != want {
		t.Errorf("got %s, want %s", s.URL, want)
	}
	if s.URL.Origin() != "https://host:8443/pods" {
		t.Errorf("it comes from %s", s.URL.Origin())
	}
	if s.Header.String() != "Authorization, X-Key" {
		t.Errorf("got %s", s.Header)
	}
	if s.URL.Reveal() != text || s.Header.Reveal()["X-Key"][0] != "geheim-6" {
		t.Error("who asks for them does not get them")
	}
}

func TestWhatHoldsNoSecretIsShownAsItIs(t *testing.T) {
	for _, text := range []string{"", "http://host/", "http://host/a%2Fb/c", "https://[::1]:80/x"} {
		if got := NewURL(text).String(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
		encoded, err := json.Marshal(NewURL(text))
		if err != nil {
			t.Fatal(err)
		}
		var back URL
		if err := json.Unmarshal(encoded, &back); err != nil || back.Reveal() != text {
			t.Errorf("%q came back as %q, %v", text, back.Reveal(), err)
		}
	}
	if got := NewURL("http://host/%zz?geheim").String(); got != "xxxxx" {
		t.Errorf("got %q", got)
	}
}

func TestErrorsAreWithoutSecrets(t *testing.T) {
	u, h := NewURL(text), header()
	_, parse := http.NewRequest(http.MethodGet, "http://me:geheim-1@host/%zz?geheim-2", nil)
	for name, err := range map[string]error{
		"an error of a client": &url.Error{Op: "Get", URL: text, Err: errors.New("connection refused")},
		"one of the parser":    parse,
		"a redirect":           fmt.Errorf("failed to parse Location header %q", "http://other/?token=geheim-2%"),
		"a header":             errors.New("what is Bearer geheim-5?"),
		"part of it":           errors.New("the word is geheim-5, or token=geheim-2&geheim-3"),
	} {
		if got := Clean(err, u, h); got == nil || strings.Contains(got.Error(), "geheim") {
			t.Errorf("%s: %v", name, got)
		}
	}
	refused := fmt.Errorf("ask: %w", io.ErrUnexpectedEOF)
	if got := Clean(refused, u, h); !errors.Is(got, io.ErrUnexpectedEOF) {
		t.Errorf("an error without secrets became %v", got)
	}
	if Clean(nil, u, h) != nil {
		t.Error("nothing became an error")
	}
}
