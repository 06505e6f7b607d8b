package nodeapi

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/pprof" // it registers itself with http.DefaultServeMux, which is not served
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/lib/pod"
)

// serveSummary answers with the resource usage of the node and its pods.
func (a *API) serveSummary(w http.ResponseWriter, r *http.Request) error {
	only, err := boolParam(r.URL.Query(), "only_cpu_and_memory")
	if err != nil {
		return err
	}
	if a.Stats == nil {
		return notFound(w, r)
	}
	summary, err := a.Stats.Summary(r.Context(), only)
	if err != nil {
		return err
	}
	return sendJSON(w, summary)
}

// serveConfigz answers with the configuration in force.
func (a *API) serveConfigz(w http.ResponseWriter, _ *http.Request) error {
	return sendJSON(w, map[string]any{"kubeletconfig": a.Configz})
}

// maxProfile is the longest time for which a client may profile the agent.
const maxProfile = 5 * time.Minute

// serveProfile answers with profiles and traces of the agent (pprof).
func (a *API) serveProfile(w http.ResponseWriter, r *http.Request) error {
	if !a.Enabled.Profiling {
		return problemf(http.StatusMethodNotAllowed, "profiling endpoint is disabled.")
	}
	if seconds, err := strconv.ParseFloat(r.URL.Query().Get("seconds"), 64); err == nil && seconds > maxProfile.Seconds() {
		return problemf(http.StatusBadRequest, "seconds can be %.0f at most", maxProfile.Seconds())
	}
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "cmdline":
		a.serveCommandLine(w)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
	return nil
}

// serveCommandLine answers with the command line of the agent, without the secrets in its flags.
func (a *API) serveCommandLine(w http.ResponseWriter) {
	line := []string{os.Args[0]}
	for _, name := range slices.Sorted(maps.Keys(a.Flags)) {
		line = append(line, "--"+name+"="+a.Flags[name])
	}
	sendText(w, strings.Join(line, "\x00"))
}

// serveVerbosity sets the log level.
func (a *API) serveVerbosity(w http.ResponseWriter, r *http.Request) error {
	if !a.Enabled.DebugFlags || a.SetVerbosity == nil {
		return problemf(http.StatusMethodNotAllowed, "flags endpoint is disabled.")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return problemf(http.StatusBadRequest, "the body can't be read: %v", err)
	}
	level, err := strconv.ParseUint(strings.TrimSpace(string(body)), 10, 8)
	if err != nil {
		return problemf(http.StatusBadRequest, "the body is %.20q, and has to be a number such as 4", body)
	}
	if err := a.SetVerbosity(int(level)); err != nil { // it has 8 bits
		return err
	}
	sendText(w, fmt.Sprintf("successfully set klog.logging.verbosity to %d", level))
	return nil
}

// serveCheckpoint checkpoints a container into a file.
func (a *API) serveCheckpoint(w http.ResponseWriter, r *http.Request) error {
	if a.CheckpointDir == "" {
		return notFound(w, r)
	}
	seconds, err := numberParam(r.URL.Query(), "timeout", 0, 0)
	if err != nil {
		return err
	}
	p, err := a.findPod(r)
	if err != nil {
		return err
	}
	name := r.PathValue("container")
	if pod.ContainerSpec(p, name) == nil {
		return problemf(http.StatusNotFound, "container %v does not exist", name)
	}
	id, err := a.runningContainer(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.CheckpointDir, 0o700); err != nil { // checkpoints contain the memory of programs
		return fmt.Errorf("make the folder of checkpoints: %w", err)
	}
	file := filepath.Join(a.CheckpointDir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", p.Name, p.Namespace, name, time.Now().Format(time.RFC3339)))
	if err := a.Runtime.Checkpoint(r.Context(), id, file, time.Duration(min(seconds, maxSeconds))*time.Second); err != nil {
		return fmt.Errorf("checkpointing of %s/%s/%s failed (%w)", p.Namespace, p.Name, name, err)
	}
	return sendJSON(w, map[string][]string{"items": {file}})
}
