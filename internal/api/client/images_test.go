package client

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/internal/lib/progress"
)

func TestImagesComeAndGo(t *testing.T) {
	var asked, body, answer string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		asked, body = r.Method+" "+r.URL.String(), string(text)
		_, _ = io.WriteString(w, answer)
	})
	var reported []string
	report := func(p progress.Progress) {
		reported = append(reported, fmt.Sprint(p.Done, "/", p.Total, " ", p.Rate, " ", p.Remaining))
	}

	answer = `{"step":"COMES","done":1,"total":2,"rate":3,"left":1000000000}` + "\n" + `{"step":"DONE","images":["localhost/a:1"]}` + "\n"
	if err := c.PullImage(t.Context(), "localhost/a:1", report); err != nil || !slices.Equal(reported, []string{"1/2 3 1s"}) {
		t.Errorf("reported %v, %v", reported, err)
	}
	if want := "POST /v1/images/pull?image=localhost%2Fa%3A1"; asked != want {
		t.Errorf("asked %s", asked)
	}
	names, err := c.LoadImages(t.Context(), "a", strings.NewReader("archive"))
	if err != nil || !slices.Equal(names, []string{"localhost/a:1"}) || body != "archive" || asked != "POST /v1/images/load?name=a" {
		t.Errorf("got %v, %v by %s %q", names, err, asked, body)
	}

	answer = `{"step":"FAILED","error":"no such image"}`
	wantError(t, c.PullImage(t.Context(), "a", report), "no such image")
	answer = ""
	wantError(t, c.PullImage(t.Context(), "a", report), "the pull ended because berth", "stopped")

	answer = "{}"
	if err := c.RemoveImage(t.Context(), "a"); err != nil || asked != "DELETE /v1/images?image=a" {
		t.Errorf("%s: %v", asked, err)
	}
	answer = `{"freed":7}`
	if r, err := c.CollectImages(t.Context(), true, false); err != nil || r.Freed != 7 || asked != "POST /v1/images/gc?all=false&dryRun=true" {
		t.Errorf("%s: %+v, %v", asked, r, err)
	}
	answer = `{"error":"no disk"}`
	_, err = c.CollectImages(t.Context(), false, false)
	wantError(t, err, "no disk")
}
