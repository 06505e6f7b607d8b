package nodeapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	utilexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"berth/internal/api/nodeapi/nodeapitest"
	"berth/internal/runtime/cri"
)

// runtime is a container runtime that serves streams with the same library as containerd.
type runtime struct {
	nodeapitest.Runtime
	server  streaming.Server
	headers chan http.Header // of the requests for streams, if a test reads them
}

func startRuntime(t *testing.T) *runtime {
	t.Helper()
	r := &runtime{headers: make(chan http.Header, 100)}
	var handler http.Handler
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		select {
		case r.headers <- request.Header.Clone():
		default:
		}
		handler.ServeHTTP(w, request)
	}))
	t.Cleanup(backend.Close)
	base, err := url.Parse(backend.URL)
	must(t, err)
	config := streaming.DefaultConfig
	config.BaseURL = base
	r.server, err = streaming.NewServer(config, processes{})
	must(t, err)
	handler = r.server
	return r
}

func (r *runtime) ExecURL(_ context.Context, id string, command []string, s cri.Streams) (string, error) {
	answer, err := r.server.GetExec(&runtimeapi.ExecRequest{ContainerId: id, Cmd: command, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	return answer.GetUrl(), err
}

func (r *runtime) AttachURL(_ context.Context, id string, s cri.Streams) (string, error) {
	answer, err := r.server.GetAttach(&runtimeapi.AttachRequest{ContainerId: id, Tty: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	return answer.GetUrl(), err
}

func (r *runtime) PortForwardURL(_ context.Context, id string, ports ...int32) (string, error) {
	answer, err := r.server.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: id, Port: ports})
	return answer.GetUrl(), err
}

// processes run the commands of tests: cat, exit with 7, or print the size of the terminal.
type processes struct{}

func (processes) Exec(_ context.Context, _ string, command []string, in io.Reader, out, _ io.WriteCloser, _ bool, resize <-chan remotecommand.TerminalSize) error {
	switch command[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "size":
		size := <-resize
		_, err := fmt.Fprintf(out, "%dx%d", size.Width, size.Height)
		return err
	default:
		return utilexec.CodeExitError{Err: fmt.Errorf("exit status 7"), Code: 7}
	}
}

func (p processes) Attach(ctx context.Context, id string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return p.Exec(ctx, id, []string{"cat"}, in, out, err, tty, resize)
}

// PortForward echoes, after the number of the port.
func (processes) PortForward(_ context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	if _, err := fmt.Fprintf(stream, "%d:", port); err != nil {
		return err
	}
	_, err := io.Copy(stream, stream)
	return err
}
