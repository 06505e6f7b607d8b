package nodeapi

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func TestALogIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.writeLog("first")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/containerLogs/default/web/app?follow=true", nil)
	must(t, err)
	response, err := w.client(theUser).Do(request)
	must(t, err)
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for i, want := range []string{"first\n", "second\n"} {
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("line %d: %q %v", i, got, err)
		}
		file, err := os.OpenFile(filepath.Join(w.logs, "c1"), os.O_APPEND|os.O_WRONLY, 0)
		must(t, err)
		_, err = io.WriteString(file, "2026-01-02T03:04:06.000000000Z stdout F second\n")
		must(t, errors.Join(err, file.Close()))
	}
}
