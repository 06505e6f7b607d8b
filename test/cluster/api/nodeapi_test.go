//go:build real

package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/process"
)

// joinAnswering starts a cluster with a node that lets the API server in by its
// certificate.
func joinAnswering(t *testing.T) (*lab.Lab, kubernetes.Interface, *lab.Node) {
	t.Helper()
	plane := kit.NewPlane(t, control.ControllerManager, control.Scheduler)
	n := kit.JoinNode(t, plane, "one")
	kit.Must(t, plane.AwaitNodes(t.Context()))
	return plane, kit.Client(t, plane, control.Admin()), n
}

func TestKubectlReachesIntoPods(t *testing.T) {
	t.Parallel()
	l, admin, n := joinAnswering(t)
	pods := kit.PodsIn(t, admin, "default")
	busy := kit.WorkloadPod("busy", "spin")
	busy.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	probed := kit.WorkloadPod("probed", "serve", ":8080")
	probed.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}}
	prepared := kit.WorkloadPod("prepared", "sleep")
	prepared.Spec.InitContainers = []corev1.Container{{Name: "first", Image: kit.WorkloadImage, Args: []string{"activity", "first", "0s", "5s"}, ImagePullPolicy: corev1.PullIfNotPresent}}
	pods.MustCreate(prepared)
	pods.Await("prepared", "being prepared", func(p *corev1.Pod) bool {
		return p != nil && len(p.Status.InitContainerStatuses) == 1 && p.Status.InitContainerStatuses[0].State.Running != nil
	})
	kit.MustMatch(t, "kubectl logs -f of an init container", kit.Kubectl(t, l, "logs", "-f", "prepared", "-c", "first"), `^first start \d+\nfirst end \d+\n$`)
	pods.MustCreate(busy, probed, kit.WorkloadPod("web", "serve", ":8080"), kit.WorkloadPod("counter", "count"), kit.WorkloadPod("lines", "log", "100"), kit.WorkloadPod("crashing", "exit", "7"))
	for _, name := range []string{"web", "counter", "lines", "probed"} {
		pods.Await(name, "ready", kit.IsReady)
	}

	t.Run("logs", func(t *testing.T) {
		kit.Within(t, kit.ShortTimeout, func() error { // what was written is on its way through the runtime
			if got := strings.Count(kit.Kubectl(t, l, "logs", "lines"), "line "); got != 100 {
				return fmt.Errorf("%d lines of 100", got)
			}
			return nil
		})
		if got := kit.Kubectl(t, l, "logs", "lines", "--tail=2"); got != "line 99\nline 100\n" {
			t.Errorf("the last two lines are %q", got)
		}
		kit.MustMatch(t, "kubectl logs --timestamps", kit.Kubectl(t, l, "logs", "lines", "--tail=1", "--timestamps"), `^\d{4}-\d\d-\d\dT\S+ line 100\n$`)
		if got := kit.Kubectl(t, l, "logs", "lines", "--limit-bytes=6"); got != "line 1" {
			t.Errorf("the first six bytes are %q", got)
		}
		pods.WithT(t).Await("crashing", "restarted", func(p *corev1.Pod) bool { return kit.InstanceOf(p).Restarts > 0 })
		kit.Kubectl(t, l, "logs", "crashing", "--previous")
		if _, err := l.Kubectl(t.Context(), "logs", "web", "--previous"); err == nil || !strings.Contains(err.Error(), `previous terminated container "app" in pod "web" not found`) {
			t.Errorf("the log of a life that never was: %v", err)
		}
	})

	t.Run("logs -f", func(t *testing.T) {
		follower := kubectlInBackground(t, l, "logs", "-f", "counter")
		follower.awaitLines(t, 20)
	})

	t.Run("exec", func(t *testing.T) {
		_, err := l.Kubectl(t.Context(), "exec", "web", "--", "/workload", "complain", "it hurts", "3")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "it hurts") {
			t.Errorf("got %v", err)
		}
		kit.Kubectl(t, l, "exec", "web", "--", "/workload", "exit", "0")
		if _, err := l.Kubectl(t.Context(), "exec", "web", "--", "/no/such/program"); err == nil {
			t.Error("a program that is not there ran")
		}
		if _, err := l.Kubectl(t.Context(), "exec", "web", "-c", "other", "--", "/workload"); err == nil || !strings.Contains(err.Error(), "other") {
			t.Errorf("a container that is not there: %v", err)
		}
	})

	t.Run("exec -it", func(t *testing.T) {
		out, err := onTerminal(t, l, "exec", "-it", "web", "--", "/workload", "complain", "on a terminal", "4")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 4 || !strings.Contains(out, "on a terminal") {
			t.Errorf("got %v: %q", err, out)
		}
	})

	t.Run("exec in a container that dies", func(t *testing.T) {
		pods := pods.WithT(t)
		pods.MustCreate(kit.WorkloadPod("dying", "sleep"))
		pods.Await("dying", "ready", kit.IsReady)
		ended := make(chan error, 1)
		go func() {
			_, err := l.Kubectl(t.Context(), "exec", "dying", "--", "/workload", "stubborn")
			ended <- err
		}()
		kit.Within(t, kit.ShortTimeout, func() error {
			if len(kit.ProcessesWith(t, "stubborn")) < 2 { // kubectl, who has the word as well, and the command
				return errors.New("the command does not run yet")
			}
			return nil
		})
		pods.MustRemove("dying")
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 137 {
				t.Errorf("a command that was killed ends with %v", err)
			}
		case <-time.After(kit.ShortTimeout):
			t.Error("it is still waited for")
		}
	})

	t.Run("cp", func(t *testing.T) { mustCopy(t, l, "web") })

	t.Run("attach", func(t *testing.T) {
		kubectlInBackground(t, l, "attach", "counter").awaitLines(t, 5)
	})

	t.Run("port-forward", func(t *testing.T) {
		forwarder := kubectlInBackground(t, l, "port-forward", "web", "18080:8080")
		kit.Within(t, kit.ShortTimeout, func() error {
			got, err := kit.GetURL(t.Context(), l, "http://127.0.0.1:18080/hostname", "")
			if err == nil && got != "200 web\n" {
				err = fmt.Errorf("got %q", got)
			}
			return err
		})
		// The pod ends, and kubectl gets an error.
		pods.WithT(t).MustRemove("web")
		select {
		case <-forwarder.Ended():
		case <-time.After(kit.WaitTimeout):
			t.Error("kubectl goes on as if nothing had happened")
		}
		kit.MustMatch(t, "kubectl port-forward", process.Tail(forwarder.log, 4<<10), `lost connection to pod`)
	})

	t.Run("debug", func(t *testing.T) {
		kit.Kubectl(t, l, "debug", "lines", "--image="+kit.WorkloadImage, "--container=debugger", "--target=app", "--profile=general", "--attach=false", "--", "/workload", "count")
		pods.WithT(t).Await("lines", "being debugged", func(p *corev1.Pod) bool {
			return p != nil && len(p.Status.EphemeralContainerStatuses) == 1 && p.Status.EphemeralContainerStatuses[0].State.Running != nil
		})
		kit.Within(t, kit.ShortTimeout, func() error {
			if kit.Kubectl(t, l, "logs", "lines", "-c", "debugger") == "" {
				return errors.New("the debugger has said nothing yet")
			}
			return nil
		})
	})

	t.Run("the node's paths", func(t *testing.T) {
		for path, want := range map[string]string{
			"healthz": `^ok$`, "healthz/syncloop": `^ok$`, "healthz/log": `^ok$`, "pods": `^{"kind":"PodList","apiVersion":"v1"`, "runningpods/": `"name":"counter"`,
			"configz": `^{"kubeletconfig":{"kind":"KubeletConfiguration"`, "stats/summary": `"nodeName": ?"one"`, "metrics": `(?m)^# TYPE `,
			"metrics/resource": `(?m)^node_memory_working_set_bytes `, "metrics/cadvisor": `(?m)^# TYPE `, "metrics/probes": ``, "metrics/slis": ``,
			"logs/": `<pre>`, "flagz": `kubelet flagz`, "statusz": `kubelet statusz`, "debug/pprof/cmdline": `berth`,
		} {
			kit.MustMatch(t, path, kit.Kubectl(t, l, "get", "--raw", "/api/v1/nodes/one/proxy/"+path), want)
		}
	})

	t.Run("metrics", func(t *testing.T) { mustBeMeasured(t, l, admin, n, "busy") })

	t.Run("berth on another machine", func(t *testing.T) { mustReachFromAfar(t, l, n, "lines") })

	t.Run("who may", func(t *testing.T) {
		node := "https://" + net.JoinHostPort(n.Address, "10250")
		kit.MustGetURL(t, l, node+"/pods", "", "401 Unauthorized\n")
		kit.MustGetURL(t, l, node+"/pods", "nonsense", "401 Unauthorized\n")
		nobody, scraper := accountToken(t, admin, "nobody"), accountToken(t, admin, "scraper")
		letRead(t, admin, "scraper", "nodes/metrics")
		kit.MustGetURL(t, l, node+"/metrics/resource", nobody, `403 Forbidden (user=system:serviceaccount:default:nobody, verb=get, resource=nodes, subresource(s)=[metrics])`+"\n")
		kit.MustGetURL(t, l, node+"/pods", scraper, `403 Forbidden (user=system:serviceaccount:default:scraper, verb=get, resource=nodes, subresource(s)=[pods proxy])`+"\n")
		got, err := kit.GetURL(t.Context(), l, node+"/metrics/resource", scraper)
		if err != nil || !strings.HasPrefix(got, "200 ") {
			t.Errorf("a scraper gets %.200q, %v", got, err)
		}
	})
}

// background is a kubectl that goes on until the test has ended.
type background struct {
	*process.Process
	log string
}

func kubectlInBackground(t *testing.T, l *lab.Lab, args ...string) background {
	t.Helper()
	kubeconfig, err := l.Kubeconfig(control.Admin())
	kit.Must(t, err)
	log := filepath.Join(t.TempDir(), "kubectl.log")
	p, err := process.Start(l.Namespace(), log, filepath.Join(fixture.BinDir(), "cluster", "kubectl"), append([]string{"--kubeconfig", kubeconfig}, args...)...)
	kit.Must(t, err)
	t.Cleanup(p.Kill)
	return background{p, log}
}

func (b background) awaitLines(t *testing.T, most int) {
	t.Helper()
	kit.Within(t, kit.WaitTimeout, func() error {
		text := process.Tail(b.log, 64<<10)
		if strings.Count(text, "\n") >= most {
			return nil
		}
		if !b.Running() {
			t.Fatalf("kubectl has ended: %s", text)
		}
		return fmt.Errorf("it has not said %d lines yet: %s", most, text)
	})
}

// onTerminal runs kubectl with a terminal of its own.
func onTerminal(t *testing.T, l *lab.Lab, args ...string) (string, error) {
	t.Helper()
	kubeconfig, err := l.Kubeconfig(control.Admin())
	kit.Must(t, err)
	var line strings.Builder
	for _, word := range append([]string{filepath.Join(fixture.BinDir(), "cluster", "kubectl"), "--kubeconfig", kubeconfig}, args...) {
		fmt.Fprintf(&line, "'%s' ", word)
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.WaitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "script", "--quiet", "--return", "--command", line.String(), "/dev/null")
	var out []byte
	err = l.Namespace().Inside(func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	return string(out), err
}

// accountToken makes a service account, and returns a token of it.
func accountToken(t *testing.T, admin kubernetes.Interface, name string) string {
	t.Helper()
	accounts := admin.CoreV1().ServiceAccounts("default")
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, kit.CreateOptions)
	kit.Must(t, err)
	r, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, kit.CreateOptions)
	kit.Must(t, err)
	return r.Status.Token
}

// letRead gives a service account the right to get a resource.
func letRead(t *testing.T, admin kubernetes.Interface, account, resource string) {
	t.Helper()
	_, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}},
	}, kit.CreateOptions)
	kit.Must(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: "default"}},
	}, kit.CreateOptions)
	kit.Must(t, err)
}
