package nodeapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// pingCheck is the check that never fails: an answer at all is its proof.
const pingCheck = "ping"

func (a *API) checks() []Check {
	return append([]Check{{Name: pingCheck, Err: func(context.Context) error { return nil }}}, a.Checks...)
}

// serveHealth tells whether all is well. The names of checks in ?exclude= do not
// count; ?verbose lists each check. The errors are only logged, since clients without
// authentication may read here.
func (a *API) serveHealth(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	excluded := query["exclude"]
	var told strings.Builder
	var failed []string
	for _, check := range a.checks() {
		if slices.Contains(excluded, check.Name) {
			fmt.Fprintf(&told, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := check.Err(r.Context()); err != nil {
			a.Log.Debug("a health check failed", "check", check.Name, "err", err)
			failed = append(failed, check.Name)
			fmt.Fprintf(&told, "[-]%s failed: reason withheld\n", check.Name)
			continue
		}
		fmt.Fprintf(&told, "[+]%s ok\n", check.Name)
	}
	switch {
	case len(failed) > 0:
		return problemf(http.StatusInternalServerError, "%shealthz check failed", told.String())
	case query.Has("verbose"):
		sendText(w, told.String()+"healthz check passed\n")
	default:
		sendText(w, "ok")
	}
	return nil
}

// serveCheck tells whether one part is well.
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
