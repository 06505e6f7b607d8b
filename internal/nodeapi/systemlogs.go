package nodeapi

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
)

// serveSystemLogs shows the files of the machine's log folder. Nothing outside of it
// can be reached, whatever a path or a link says.
func (a *API) serveSystemLogs(w http.ResponseWriter, r *http.Request) error {
	switch {
	case !a.Enabled.SystemLogs || a.SystemLogDir == "":
		return problemf(http.StatusMethodNotAllowed, "logs endpoint is disabled.")
	case r.URL.Query().Has("query"):
		return problemf(http.StatusForbidden, "this node does not answer queries of system logs (enableSystemLogQuery): read the files below /logs/, or use journalctl on the machine")
	}
	root, err := os.OpenRoot(a.SystemLogDir)
	if err != nil {
		return fmt.Errorf("open the folder of system logs: %w", err)
	}
	defer func() { _ = root.Close() }()
	http.StripPrefix("/logs/", http.FileServerFS(plainFiles{root.FS()})).ServeHTTP(w, r)
	return nil
}

// plainFiles has files and folders alone: who opens a pipe waits for somebody to
// write to it.
type plainFiles struct{ fs.FS }

func (p plainFiles) Open(name string) (fs.File, error) {
	info, err := fs.Stat(p.FS, name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return p.FS.Open(name)
}
