//go:build real

package kit

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"

	"berth/test/lab"
)

// GetURL asks for a URL from where the control plane is, and returns the code and the
// body of the answer.
func GetURL(ctx context.Context, l *lab.Lab, url, token string) (string, error) {
	transport := &http.Transport{DialContext: l.Namespace().Dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := (&http.Client{Transport: transport, Timeout: ShortTimeout}).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return fmt.Sprintf("%d %s", response.StatusCode, body), err
}

// MustGetURL fails the test unless GetURL returns what is wanted.
func MustGetURL(t *testing.T, l *lab.Lab, url, token, want string) {
	t.Helper()
	if got, err := GetURL(t.Context(), l, url, token); err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", url, got, err, want)
	}
}
