package nodeapi

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of a log query, the same as the kubelet's.
const (
	maxTailLines      = 100_000
	maxServices       = 4
	maxServiceName    = 256
	logQueryTimeout   = 30 * time.Second
	journalTimeLayout = time.DateTime
)

var unsafeServiceName = regexp.MustCompile(`[^a-zA-Z\-_.:0-9@]`)

// Journal runs journalctl with arguments, and writes its output to out.
type Journal func(ctx context.Context, out io.Writer, args ...string) error

// logQuery asks for the logs of services, or for one file of the log folder.
type logQuery struct {
	services, files []string
	journalOptions
}

// journalOptions are the options of a logQuery that only the journal can answer.
type journalOptions struct {
	since, until time.Time // zero: without a limit
	tailLines    string    // numbers, as they are given to journalctl; empty: not given
	boot         string
	pattern      string
}

// parseLogQuery reads the parameters of a request. It returns nil if none of them is of a query.
func parseLogQuery(values url.Values) (*logQuery, field.ErrorList) {
	var q logQuery
	var errs field.ErrorList
	for _, text := range values["query"] {
		switch {
		case strings.ContainsAny(text, `/\`):
			q.files = append(q.files, text)
		case strings.TrimSpace(text) != "":
			q.services = append(q.services, text)
		}
	}
	if values.Has("query") && len(q.files)+len(q.services) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("query"), values["query"], "may not be empty"))
	}
	for name, into := range map[string]*time.Time{"sinceTime": &q.since, "untilTime": &q.until} {
		if text := values.Get(name); text != "" {
			var err error
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				errs = append(errs, field.Invalid(field.NewPath(name), text, "invalid time format"))
			}
		}
	}
	for name, into := range map[string]*string{"boot": &q.boot, "tailLines": &q.tailLines} {
		if text := values.Get(name); text != "" {
			number, err := strconv.Atoi(text)
			if err != nil {
				errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
			}
			*into = strconv.Itoa(number)
		}
	}
	q.pattern = values.Get("pattern")
	if q.isEmpty() {
		return nil, errs
	}
	return &q, errs
}

func (q *logQuery) isEmpty() bool {
	return len(q.services)+len(q.files) == 0 && q.journalOptions == journalOptions{}
}

// check returns the mistakes of a query.
func (q *logQuery) check() field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("query")
	for _, s := range q.services {
		switch {
		case len(s) > maxServiceName:
			errs = append(errs, field.Invalid(path, s, fmt.Sprintf("length must be less than %d", maxServiceName)))
		case unsafeServiceName.MatchString(s):
			errs = append(errs, field.Invalid(path, s, "input contains unsupported characters"))
		}
	}
	if len(q.services) > maxServices {
		errs = append(errs, field.TooMany(path, len(q.services), maxServices))
	}
	switch {
	case len(q.files)+len(q.services) == 0:
		errs = append(errs, field.Required(path, "cannot be empty with options"))
	case len(q.files) > 0 && len(q.services) > 0:
		errs = append(errs, field.Invalid(path, fmt.Sprintf("%v, %v", q.files, q.services), "cannot specify a file and service"))
	case len(q.files) > 1:
		errs = append(errs, field.Invalid(path, q.files, "cannot specify more than one file"))
	case len(q.files) == 1 && q.journalOptions != journalOptions{}:
		errs = append(errs, field.Invalid(path, q.files, "cannot specify file with options"))
	}
	if !q.since.IsZero() && !q.until.IsZero() && q.since.After(q.until) {
		errs = append(errs, field.Invalid(field.NewPath("untilTime"), q.until, "must be after `sinceTime`"))
	}
	if boot, _ := strconv.Atoi(q.boot); boot > 0 { // it was parsed before
		errs = append(errs, field.Invalid(field.NewPath("boot"), boot, "must be less than 1"))
	}
	if lines, _ := strconv.Atoi(q.tailLines); lines < 0 || lines > maxTailLines {
		errs = append(errs, field.Invalid(field.NewPath("tailLines"), lines, fmt.Sprintf("must be between 0 and %d, inclusive", maxTailLines)))
	}
	if _, err := syntax.Parse(q.pattern, syntax.Perl); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("pattern"), q.pattern, err.Error()))
	}
	return errs
}

// journalArgs returns the arguments of journalctl for the services.
func (q *logQuery) journalArgs(services []string) []string {
	args := []string{"--utc", "--no-pager", "--output=short-precise"}
	if !q.since.IsZero() {
		args = append(args, "--since="+q.since.UTC().Format(journalTimeLayout))
	}
	if !q.until.IsZero() {
		args = append(args, "--until="+q.until.UTC().Format(journalTimeLayout))
	}
	if q.tailLines != "" {
		args = append(args, "--pager-end", "--lines="+q.tailLines)
	}
	for _, s := range services {
		args = append(args, "--unit="+s)
	}
	if q.pattern != "" {
		args = append(args, "--grep="+q.pattern)
	}
	if q.boot != "" {
		args = append(args, "--boot="+q.boot)
	}
	return args
}

// serveLogQuery answers a query with the journal of services, or with their files in the log folder. A failure after the
// first byte is a line of the answer. Like the kubelet's, the answer is compressed for a client that accepts gzip and nothing else;
// logs of containers and files never are.
func (a *API) serveLogQuery(w http.ResponseWriter, r *http.Request, root *os.Root, q *logQuery) {
	ctx, cancel := context.WithTimeout(r.Context(), logQueryTimeout)
	defer cancel()
	w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	out := io.Writer(w)
	if r.Header.Get("Accept-Encoding") == "gzip" {
		w.Header().Set("Content-Encoding", "gzip")
		compressed, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
		defer func() { _ = compressed.Close() }()               // the client has gone
		out = compressed
	}
	a.writeLogQuery(ctx, out, root, q)
}

func (a *API) writeLogQuery(ctx context.Context, w io.Writer, root *os.Root, q *logQuery) {
	inJournal, inFiles := a.splitByJournal(ctx, q.services)
	if len(inJournal) > 0 {
		if err := a.Journal(ctx, w, q.journalArgs(inJournal)...); err != nil && !errors.As(err, new(*exec.ExitError)) { // journalctl has said why it failed
			_, _ = fmt.Fprintf(w, "\nerror: journal output not available: %v\n", err)
		}
	}
	switch {
	case len(inFiles) == 0:
	case q.journalOptions != journalOptions{}:
		_, _ = fmt.Fprintf(w, "\noptions present and query resolved to log files for %v\ntry without specifying options\n", inFiles)
	default:
		for _, s := range inFiles {
			copyLogFile(ctx, w, plainFiles{root, maxListed}, s)
		}
	}
}

// splitByJournal separates the services with entries in the journal from the others, which may have log files.
func (a *API) splitByJournal(ctx context.Context, services []string) (inJournal, inFiles []string) {
	var units bytes.Buffer
	if a.Journal == nil || a.Journal(ctx, &units, "--field", "_SYSTEMD_UNIT") != nil {
		return nil, services // there is no journal
	}
	known := strings.Fields(units.String())
	for _, s := range services {
		if slices.Contains(known, s) || slices.Contains(known, s+".service") {
			inJournal = append(inJournal, s)
		} else {
			inFiles = append(inFiles, s)
		}
	}
	return inJournal, inFiles
}

// copyLogFile copies the first log file of a service that there is: NAME, NAME.log or NAME/NAME.log.
func copyLogFile(ctx context.Context, w io.Writer, files plainFiles, service string) {
	for _, name := range []string{service, service + ".log", filepath.Join(service, service+".log")} {
		err := copyFile(ctx, w, files, name)
		switch {
		case err == nil:
			return
		case !errors.Is(err, fs.ErrNotExist):
			_, _ = fmt.Fprintf(w, "\nerror getting log for %s: %v\n", service, err)
			return
		}
	}
	_, _ = fmt.Fprintf(w, "\nlog not found for %s\n", service)
}

func copyFile(ctx context.Context, w io.Writer, files plainFiles, name string) error {
	file, err := files.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	if info, err := file.Stat(); err != nil || info.IsDir() {
		return fs.ErrNotExist
	}
	_, err = io.Copy(w, untilDone{ctx, file})
	return err
}

// untilDone is a reader that fails once its context has ended.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
