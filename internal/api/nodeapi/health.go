package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// pingCheck is the health check that never fails.
const pingCheck = "ping"

func (a *API) checks() []Check {
	return append([]Check{{Name: pingCheck, Err: func(context.Context) error { return nil }}}, a.Checks...)
}

// serveHealth answers whether all health checks pass. Checks that are named in ?exclude= do not
// count; ?verbose lists each check. The errors are only logged, since clients need no
// authentication for this path.
func (a *API) serveHealth(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	excluded := query["exclude"]
	var report strings.Builder
	var failed []string
	for _, check := range a.checks() {
		if slices.Contains(excluded, check.Name) {
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := check.Err(r.Context()); err != nil {
			a.Log.Debug("a health check failed", "check", check.Name, "err", err)
			failed = append(failed, check.Name)
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", check.Name)
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", check.Name)
	}
	switch {
	case len(failed) > 0:
		return problemf(http.StatusInternalServerError, "%shealthz check failed", report.String())
	case query.Has("verbose"):
		sendText(w, report.String()+"healthz check passed\n")
	default:
		sendText(w, "ok")
	}
	return nil
}

// serveCheck answers whether one health check passes.
func (a *API) serveCheck(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("check")
	for _, check := range a.checks() {
		if check.Name != name {
			continue
		}
		if err := check.Err(r.Context()); err != nil {
			return problemf(http.StatusInternalServerError, "internal server error: %v", err)
		}
		sendText(w, "ok")
		return nil
	}
	return notFound(w, r)
}
