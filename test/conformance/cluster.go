package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/process"
	"berth/test/leftovers"
)

const (
	// clusterName is the name of the plane's network namespace, and begins those of the machines: there is one
	// cluster at a time.
	clusterName = "berth-conformance-cluster"
	// nodesMark is the file of the results that says that all nodes are ready, as in machine.sh.
	nodesMark = "nodes"
)

// clusterNodes are the names of the nodes. The suite runs on the machine of the first one.
var clusterNodes = []string{"one", "two"}

// runClusterSuite runs the cluster suite against a control plane and two nodes, each on a machine of its own.
func runClusterSuite(ctx context.Context, r suiteRun, out io.Writer) (err error) {
	cluster, err := lab.Start(ctx, lab.Config{
		Name: clusterName, Dir: filepath.Join(r.results, "lab"), Programs: r.programs.bin,
		Parts: []control.Part{control.ControllerManager, control.Scheduler},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	var machines []*machine
	for i, name := range clusterNodes {
		config := machineConfig{results: filepath.Join(r.results, name), job: clusterNode, programs: r.programs}
		if i == 0 {
			config.results, config.job, config.options = r.results, clusterSuite, r.options
		}
		m, err := joinCluster(ctx, cluster, name, config, out)
		if err != nil {
			return err
		}
		defer m.kill()
		machines = append(machines, m)
	}
	for i, name := range clusterNodes {
		if err := cluster.AwaitNode(ctx, name); err != nil {
			return fmt.Errorf("%w; the log of its kubelet says:\n%s", err, process.Tail(filepath.Join(machines[i].results, "kubelet.log"), 32<<10))
		}
	}
	if err := os.WriteFile(filepath.Join(r.results, nodesMark), nil, 0o644); err != nil {
		return err
	}
	return machines[0].wait(ctx)
}

// joinCluster starts a machine whose kubelet joins the cluster.
func joinCluster(ctx context.Context, cluster *lab.Lab, name string, c machineConfig, out io.Writer) (*machine, error) {
	if err := os.MkdirAll(c.results, 0o755); err != nil {
		return nil, err
	}
	users := map[string]control.User{"kubelet.conf": control.Node(name)}
	if c.job == clusterSuite {
		users["admin.conf"] = control.Admin()
	}
	for file, user := range users {
		if err := cluster.WriteKubeconfig(filepath.Join(c.results, file), user, cluster.URL()); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(c.results, "clients.crt"), cluster.Authority(), 0o644); err != nil {
		return nil, err
	}
	place, err := cluster.AddMachine(name)
	if err != nil {
		return nil, err
	}
	c.name, c.network, c.address, c.pods = place.Namespace.Name(), place.Namespace, place.Address, place.PodRange
	return startMachine(ctx, c, out)
}

func clearClusterSuite() error {
	errs := []error{leftovers.Remove(clusterName)}
	for _, name := range clusterNodes {
		errs = append(errs, leftovers.Remove(lab.NamespaceOf(clusterName, name)))
	}
	return errors.Join(errs...)
}
