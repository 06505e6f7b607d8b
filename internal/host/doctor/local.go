package doctor

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"berth/internal/host/selinux"
)

// apiServerTimeout is how long an API server may take to answer.
const apiServerTimeout = 5 * time.Second

// ThisMachine returns the machine that this process runs on. What is to be known of berth on it is left to the caller:
// its directories, its ports, its agent, its cluster.
func ThisMachine() (Machine, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return Machine{}, fmt.Errorf("find out the machine's name: %w", err)
	}
	return Machine{
		Files: os.DirFS("/"), UID: os.Geteuid(), Hostname: hostname,
		LookPath: exec.LookPath, Space: space, ClockSynced: clockSynced, CanLabel: selinux.CanLabel,
	}, nil
}

func space(dir string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Space{}, err
	}
	block := uint64(s.Bsize)
	return Space{Free: s.Bavail * block, Total: s.Blocks * block, FreeInodes: s.Ffree, TotalInodes: s.Files}, nil
}

// clockSynced asks the kernel whether its clock is synchronized.
func clockSynced() (bool, error) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unix.TIME_ERROR, err
}

// ReachAPIServer asks the API server of a kubeconfig for its version.
func ReachAPIServer(ctx context.Context, kubeconfig string) error {
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, apiServerTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.Host, "/")+"/version", http.NoBody)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", c.Host, answer.Status)
	}
	return nil
}
