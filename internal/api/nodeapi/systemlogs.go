package nodeapi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
)

// serveSystemLogs serves the files of the machine's log folder, and answers queries of the logs of services. Neither a path nor
// a symbolic link can reach files outside of the folder.
func (a *API) serveSystemLogs(w http.ResponseWriter, r *http.Request) error {
	switch {
	case !a.Enabled.SystemLogs || a.SystemLogDir == "":
		return problemf(http.StatusMethodNotAllowed, "logs endpoint is disabled.")
	case !a.Enabled.SystemLogQuery && r.URL.Query().Has("query"):
		return problemf(http.StatusForbidden, "this node does not answer queries of system logs (enableSystemLogQuery): read the files below /logs/, or use journalctl on the machine")
	}
	root, err := os.OpenRoot(a.SystemLogDir)
	if err != nil {
		return fmt.Errorf("open the folder of system logs: %w", err)
	}
	defer func() { _ = root.Close() }()
	if a.Enabled.SystemLogQuery {
		query, errs := parseLogQuery(r.URL.Query())
		switch {
		case len(errs) > 0:
			return problemf(http.StatusBadRequest, "%v", errs.ToAggregate())
		case query == nil:
		case r.URL.Path != "/logs/":
			return problemf(http.StatusNotAcceptable, "path not allowed in query mode")
		default:
			if errs := query.check(); len(errs) > 0 {
				return problemf(http.StatusNotAcceptable, "%v", errs.ToAggregate())
			}
			if len(query.services) > 0 {
				a.serveLogQuery(w, r, root, query)
				return nil
			}
			r = r.Clone(r.Context())
			r.URL.Path = "/logs/" + strings.TrimPrefix(strings.ReplaceAll(query.files[0], `\`, "/"), "/")
			r.URL.RawPath = ""
		}
	}
	http.StripPrefix("/logs/", http.FileServerFS(plainFiles{root, maxListed})).ServeHTTP(w, r)
	return nil
}

// maxListed is how many entries of a folder are listed. A pod that has the folder as a
// hostPath can make any number of files.
const maxListed = 10_000

// plainFiles is a file system with regular files and folders alone: to open a named pipe would
// block until a process writes to it.
type plainFiles struct {
	root      *os.Root
	maxListed int
}

// Open implements fs.FS.
func (p plainFiles) Open(name string) (fs.File, error) {
	info, err := p.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !isPlain(info) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return p.openPlain(name)
}

// openPlain opens a file without blocking: it may have been replaced by a pipe since it was checked.
func (p plainFiles) openPlain(name string) (fs.File, error) {
	file, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !isPlain(info) {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return boundedDir{file, p.maxListed}, nil
}

func isPlain(info fs.FileInfo) bool { return info.IsDir() || info.Mode().IsRegular() }

// boundedDir is a file, or a folder that fails to be listed if it has more than maxEntries entries.
type boundedDir struct {
	*os.File
	maxEntries int
}

// ReadDir implements fs.ReadDirFile. With n < 0 it lists all.
func (s boundedDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n >= 0 {
		return s.File.ReadDir(n)
	}
	entries, err := s.File.ReadDir(s.maxEntries + 1)
	switch {
	case errors.Is(err, io.EOF):
		err = nil
	case len(entries) > s.maxEntries:
		entries, err = nil, fmt.Errorf("%s has more than %d entries", s.Name(), s.maxEntries)
	}
	return entries, err
}
