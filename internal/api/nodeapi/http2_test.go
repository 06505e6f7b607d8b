package nodeapi

import (
	"bufio"
	"net/http"
	"testing"
)

func TestThePortSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.writeLog("one", "two")
	transport := w.transport(theUser)
	transport.ForceAttemptHTTP2 = true
	client := &http.Client{Transport: transport}
	for path, line := range map[string]string{"/healthz": "ok", "/containerLogs/default/web/app": "one"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		must(t, err)
		response, err := client.Do(request)
		must(t, err)
		lines := bufio.NewScanner(response.Body)
		if !lines.Scan() || response.ProtoMajor != 2 || response.StatusCode != http.StatusOK || lines.Text() != line {
			t.Errorf("%s: got %s %s %q", path, response.Proto, response.Status, lines.Text())
		}
		must(t, response.Body.Close())
	}
}
