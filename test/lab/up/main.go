// Command up is `make cluster`: a Kubernetes cluster to try out, with two berth nodes,
// until it is stopped. It needs root, and changes nothing in the network of the
// machine: kubectl goes through a port on loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/proxy"
)

func main() {
	root := flag.String("root", "/tmp/berth-cluster", "folder for everything; it is removed at the end")
	programs := flag.String("programs", "bin", "folder of what make builds")
	port := flag.Int("port", 0, "port on loopback at which the API server is found (default: any that is free)")
	flag.Parse()
	// 'make cluster | tee' loses its reader at the first Ctrl-C, before the cluster is taken down.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if err := run(*root, *programs, *port); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(root, programs string, port int) error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed, since containers and network namespaces are made")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	programs, err = filepath.Abs(programs)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	config := lab.Config{
		// No two folders have the same.
		Name: strings.ReplaceAll(strings.Trim(root, "/"), "/", "-"),
		Dir:  root, Programs: programs,
		Parts:  []control.Part{control.ControllerManager, control.Scheduler},
		Images: []string{filepath.Join(programs, "images", "hello.tar")},
	}
	if err := clearLeftovers(config); err != nil {
		return err
	}
	fmt.Println("starting a cluster in", root)
	cluster, err := lab.Start(ctx, config)
	if err != nil {
		return err
	}
	err = serve(ctx, stop, cluster, config, port)
	if ctx.Err() != nil {
		err = nil // the user has asked us to stop, and so everything fails
	}
	if err := errors.Join(err, cluster.Close()); err != nil {
		return fmt.Errorf("%w\n%s is left, for you to look at; the next start removes it", err, root)
	}
	return os.RemoveAll(root)
}

// clearLeftovers takes down a cluster that was killed. Folders of others are left alone.
func clearLeftovers(c lab.Config) error {
	entries, err := os.ReadDir(c.Dir)
	if errors.Is(err, os.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	if !lab.Is(c.Dir) {
		return fmt.Errorf("folder %s is not empty, and not that of a cluster: give another one", c.Dir)
	}
	fmt.Println("taking down what an earlier cluster left in", c.Dir)
	return lab.Clear(c)
}

// serve adds nodes and a way for kubectl, and says what can be done with them until ctx ends.
func serve(ctx context.Context, stop context.CancelFunc, cluster *lab.Lab, c lab.Config, port int) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	way := proxy.NewTCP(listener, cluster.Namespace().Dial, strings.TrimPrefix(cluster.URL(), "https://"))
	defer way.Close()
	kubeconfig := filepath.Join(c.Dir, "kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig, control.Admin(), "https://"+way.Address()); err != nil {
		return err
	}
	for _, name := range []string{"one", "two"} {
		if _, err := cluster.Join(lab.NodeConfig{Name: name}); err != nil {
			return err
		}
	}
	if err := cluster.AwaitNodes(ctx); err != nil {
		return err
	}
	fmt.Print(welcome(cluster, c, kubeconfig))
	<-ctx.Done()
	stop() // a second Ctrl-C ends the process at once
	fmt.Println("taking the cluster down: its pods are given the time to end that they ask for")
	return nil
}

func welcome(cluster *lab.Lab, c lab.Config, kubeconfig string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
The cluster is up. In another terminal, as root:

    export KUBECONFIG=%s
    export PATH=%s:$PATH

    kubectl get nodes -o wide
    kubectl create deployment hello --image=localhost/hello:1 --replicas=4
    kubectl get pods -o wide

Each node is a network namespace, with a root directory and a folder for static pods:

`, kubeconfig, filepath.Join(c.Programs, "cluster"))
	for _, n := range cluster.Nodes() {
		fmt.Fprintf(&b, "    %-4s nsenter --net=%s curl http://ADDRESS-OF-A-POD:8080/\n", n.Name, n.Namespace.Path())
		fmt.Fprintf(&b, "         %s get pods --root-dir %s\n", filepath.Join(c.Programs, "berth"), n.Root)
		fmt.Fprintf(&b, "         %s, %s\n", n.Log(), n.Manifests)
	}
	fmt.Fprint(&b, "\nCtrl-C takes everything down.\n")
	return b.String()
}
