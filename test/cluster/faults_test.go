//go:build real

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/test/lab"
	"berth/test/lab/control"
	"berth/test/lab/proxy"
)

// faultyWay is a way from a node to the API server on which everything can go wrong.
type faultyWay struct {
	node        *lab.Node
	connections *proxy.TCP
	requests    *proxy.API
}

// newFaultyWay joins a node that reaches the API server by such a way: its
// connections go through one proxy, and its requests through another behind that.
func newFaultyWay(t *testing.T, plane *lab.Lab, name string) *faultyWay {
	t.Helper()
	return newFaultyWayAs(t, plane, lab.NodeConfig{Name: name}, nil)
}

// newFaultyWayAs is newFaultyWay for a node with settings of its own, and for a fault from
// the start.
func newFaultyWayAs(t *testing.T, plane *lab.Lab, c lab.NodeConfig, fault proxy.Fault) *faultyWay {
	t.Helper()
	name := c.Name
	address, port := plane.Address(), "7443"
	certificate, err := plane.ServerCertificate("faulty", net.ParseIP(address))
	must(t, err)
	upstream, err := plane.RESTConfig(control.Node(name))
	must(t, err)
	inner, err := plane.Namespace().Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	requests, err := proxy.NewAPI(inner, certificate, upstream)
	must(t, err)
	t.Cleanup(requests.Close)
	if fault != nil {
		requests.Break(fault)
	}
	outer, err := plane.Namespace().Listen(t.Context(), "tcp", net.JoinHostPort(address, port))
	must(t, err)
	connections := proxy.NewTCP(outer, plane.Namespace().Dial, inner.Addr().String())
	t.Cleanup(connections.Close)

	c.Kubeconfig = filepath.Join(plane.Dir(), "faulty.kubeconfig")
	must(t, plane.WriteKubeconfig(c.Kubeconfig, control.Node(name), "https://"+connections.Address()))
	return &faultyWay{joinNodeAs(t, plane, c), connections, requests}
}

// nowAndThen does something at random times until the context ends.
func nowAndThen(ctx context.Context, chance *rand.Rand, do func()) {
	for {
		select {
		case <-time.After(time.Duration(50+chance.IntN(250)) * time.Millisecond):
			do()
		case <-ctx.Done():
			return
		}
	}
}

// status answers a request as an API server does that can't.
func status(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	fmt.Fprint(w, failure(code, reason))
}

func failure(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the test says so","reason":%q,"code":%d}`, reason, code)
}

// half answers half of the requests like that.
func half(code int, reason string) proxy.Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if rand.IntN(2) == 0 {
			return false
		}
		status(w, code, reason)
		return true
	}
}

func TestNoPodSuffersFromWhatHappensOnTheWayToTheAPIServer(t *testing.T) {
	t.Parallel()
	plane := newPlane(t)
	way := newFaultyWay(t, plane, "one")
	pods := podsIn(t, clientOf(t, plane, control.Admin()), "default")
	before := map[string]life{}
	for i := range 5 {
		name := fmt.Sprintf("steady-%d", i)
		pods.create(onNode(workloadPod(name, "sleep"), "one"))
		before[name] = lifeOf(pods.await(name, "ready", isReady))
	}

	t.Run("overwritten-unseen", func(t *testing.T) { overwrittenUnseen(pods.of(t), way) })
	for _, c := range []struct {
		name  string
		begin func(ctx context.Context, chance *rand.Rand) // ends with ctx, or is mended
	}{
		{"watches-end", func(ctx context.Context, chance *rand.Rand) {
			nowAndThen(ctx, chance, func() { way.requests.EndWatches(chance.IntN(2) == 0) })
		}},
		{"connections-break", func(ctx context.Context, chance *rand.Rand) {
			nowAndThen(ctx, chance, way.connections.Cut)
		}},
		{"connections-lost", func(context.Context, *rand.Rand) { way.connections.Lose() }},
		{"watches-refused-as-gone", func(ctx context.Context, chance *rand.Rand) {
			// Nobody may go on where a watch ended, as after a compaction: only begin anew.
			way.requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
				if !proxy.IsWatch(r) || r.URL.Query().Get("sendInitialEvents") == "true" {
					return false
				}
				status(w, http.StatusGone, "Expired")
				return true
			})
			nowAndThen(ctx, chance, func() { way.requests.EndWatches(chance.IntN(2) == 0) })
		}},
		{"watches-end-as-gone", func(context.Context, *rand.Rand) {
			way.requests.EndWatches(false)
			way.requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
				if !proxy.IsWatch(r) || rand.IntN(2) == 0 {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", failure(http.StatusGone, "Expired"))
				return true
			})
		}},
		{"too-many-requests", func(context.Context, *rand.Rand) {
			way.requests.Break(half(http.StatusTooManyRequests, "TooManyRequests"))
		}},
		{"internal-errors", func(context.Context, *rand.Rand) {
			way.requests.EndWatches(true)
			way.requests.Break(half(http.StatusInternalServerError, "InternalError"))
		}},
		{"not-found-by-a-load-balancer", func(context.Context, *rand.Rand) {
			// One without servers answers in plain text, which says nothing about any pod.
			way.requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
				writes := r.Method == http.MethodPatch || r.Method == http.MethodDelete
				if !writes || !strings.Contains(r.URL.Path, "/pods/") || rand.IntN(2) == 0 {
					return false
				}
				http.Error(w, "default backend - 404", http.StatusNotFound)
				return true
			})
		}},
		{"slow-answers", func(context.Context, *rand.Rand) {
			way.requests.EndWatches(true)
			way.requests.Break(func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-time.After(time.Duration(500+rand.IntN(1500)) * time.Millisecond):
				case <-r.Context().Done():
				}
				return false
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods, log := pods.of(t), markLog(t, way.node)
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				c.begin(ctx, rand.New(rand.NewPCG(1, 2)))
			}()
			began := time.Now()
			liveThrough(pods, c.name)
			t.Logf("pods came and went within %s", time.Since(began).Round(time.Millisecond))
			end()
			<-ended
			way.requests.Mend()

			// Mended, all is as fast as ever, and nothing happened to those that ran.
			pods.create(onNode(once(workloadPod("mended-"+c.name, "exit", "0")), "one"))
			pods.awaitWithin(catchUp, "mended-"+c.name, "done", hasPhase(corev1.PodSucceeded))
			for name, life := range before {
				mustBeSame(t, pods.awaitWithin(catchUp, name, "ready", isReady), life)
			}
			log.mustComplainRarely(t)
		})
	}
}

// overwrittenUnseen has somebody overwrite a status while the node can't watch. The node
// gets to know of it by the answer to its next patch, which is about something else.
func overwrittenUnseen(pods pods, way *faultyWay) {
	t := pods.t
	t.Helper()
	p := onNode(workloadPod("unseen", "moody", ":8080", "8s"), "one")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
	pods.create(p)
	pods.await("unseen", "running", hasPhase(corev1.PodRunning))
	way.requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			return false
		}
		status(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return true
	})
	way.requests.EndWatches(false)
	if isReady(pods.await("unseen", "there", func(p *corev1.Pod) bool { return p != nil })) {
		t.Fatal("it is ready too early: this shows nothing")
	}
	_, err := pods.Patch(t.Context(), "unseen", types.StrategicMergePatchType, []byte(`{"status":{"phase":"Pending"}}`), metav1.PatchOptions{}, "status")
	must(t, err)

	pods.await("unseen", "ready", isReady)
	way.requests.Mend()
	pods.awaitWithin(soon, "unseen", "put right", func(p *corev1.Pod) bool { return isReady(p) && p.Status.Phase == corev1.PodRunning })
	pods.remove("unseen")
}

// liveThrough takes pods through their lives. No status of theirs may be lost.
func liveThrough(pods pods, name string) {
	pods.t.Helper()
	pods.create(onNode(workloadPod("runs-"+name, "sleep"), "one"), onNode(once(workloadPod("ends-"+name, "exit", "5")), "one"))
	lives := lifeOf(pods.await("runs-"+name, "ready", isReady))
	pods.await("ends-"+name, "failed", func(p *corev1.Pod) bool {
		return hasPhase(corev1.PodFailed)(p) && p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 5
	})
	mustBeSame(pods.t, pods.await("runs-"+name, "ready", isReady), lives)
	pods.remove("runs-"+name, "ends-"+name)
}
