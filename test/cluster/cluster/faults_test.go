//go:build real

package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/test/cluster/kit"
	"berth/test/lab/control"
	"berth/test/lab/proxy"
)

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

// half answers half of the requests like that.
func half(code int, reason string) proxy.Fault {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if rand.IntN(2) == 0 {
			return false
		}
		kit.WriteStatus(w, code, reason)
		return true
	}
}

func TestNoPodSuffersFromWhatHappensOnTheWayToTheAPIServer(t *testing.T) {
	t.Parallel()
	plane := kit.NewPlane(t)
	way := kit.JoinThroughProxy(t, plane, "one")
	pods := kit.PodsIn(t, kit.Client(t, plane, control.Admin()), "default")
	before := map[string]kit.ContainerInstance{}
	for i := range 5 {
		name := fmt.Sprintf("steady-%d", i)
		pods.MustCreate(kit.OnNode(kit.WorkloadPod(name, "sleep"), "one"))
		before[name] = kit.InstanceOf(pods.Await(name, "ready", kit.IsReady))
	}

	t.Run("overwritten-unseen", func(t *testing.T) { overwrittenUnseen(pods.WithT(t), way) })
	for _, c := range []struct {
		name  string
		begin func(ctx context.Context, chance *rand.Rand) // ends with ctx, or is mended
	}{
		{"watches-end", func(ctx context.Context, chance *rand.Rand) {
			nowAndThen(ctx, chance, func() { way.Requests.EndWatches(chance.IntN(2) == 0) })
		}},
		{"connections-break", func(ctx context.Context, chance *rand.Rand) {
			nowAndThen(ctx, chance, way.Connections.Cut)
		}},
		{"connections-lost", func(context.Context, *rand.Rand) { way.Connections.Lose() }},
		{"watches-refused-as-gone", func(ctx context.Context, chance *rand.Rand) {
			// No client may go on where a watch ended, as after a compaction: only begin anew.
			way.Requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
				if !proxy.IsWatch(r) || r.URL.Query().Get("sendInitialEvents") == "true" {
					return false
				}
				kit.WriteStatus(w, http.StatusGone, "Expired")
				return true
			})
			nowAndThen(ctx, chance, func() { way.Requests.EndWatches(chance.IntN(2) == 0) })
		}},
		{"watches-end-as-gone", func(context.Context, *rand.Rand) {
			way.Requests.EndWatches(false)
			way.Requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
				if !proxy.IsWatch(r) || rand.IntN(2) == 0 {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"type":"ERROR","object":%s}`+"\n", kit.StatusBody(http.StatusGone, "Expired"))
				return true
			})
		}},
		{"too-many-requests", func(context.Context, *rand.Rand) {
			way.Requests.Break(half(http.StatusTooManyRequests, "TooManyRequests"))
		}},
		{"internal-errors", func(context.Context, *rand.Rand) {
			way.Requests.EndWatches(true)
			way.Requests.Break(half(http.StatusInternalServerError, "InternalError"))
		}},
		{"not-found-by-a-load-balancer", func(context.Context, *rand.Rand) {
			// One without servers answers in plain text, which says nothing about any pod.
			way.Requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
				writes := r.Method == http.MethodPatch || r.Method == http.MethodDelete
				if !writes || !strings.Contains(r.URL.Path, "/pods/") || rand.IntN(2) == 0 {
					return false
				}
				http.Error(w, "default backend - 404", http.StatusNotFound)
				return true
			})
		}},
		{"slow-answers", func(context.Context, *rand.Rand) {
			way.Requests.EndWatches(true)
			way.Requests.Break(func(_ http.ResponseWriter, r *http.Request) bool {
				select {
				case <-time.After(time.Duration(500+rand.IntN(1500)) * time.Millisecond):
				case <-r.Context().Done():
				}
				return false
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods, log := pods.WithT(t), kit.MarkLog(t, way.Node)
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
			way.Requests.Mend()

			// Mended, all is as fast as ever, and nothing happened to those that ran.
			pods.MustCreate(kit.OnNode(kit.WithoutRestart(kit.WorkloadPod("mended-"+c.name, "exit", "0")), "one"))
			pods.AwaitWithin(catchUpTimeout, "mended-"+c.name, "done", kit.HasPhase(corev1.PodSucceeded))
			for name, life := range before {
				kit.MustKeepInstance(t, pods.AwaitWithin(catchUpTimeout, name, "ready", kit.IsReady), life)
			}
			log.MustComplainRarely(t)
		})
	}
}

// overwrittenUnseen overwrites a status while the node can't watch. The node
// gets to know of it by the answer to its next patch, which is about something else.
func overwrittenUnseen(pods kit.Pods, way *kit.ProxiedNode) {
	t := pods.T
	t.Helper()
	p := kit.OnNode(kit.WorkloadPod("unseen", "moody", ":8080", "8s"), "one")
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
	pods.MustCreate(p)
	pods.Await("unseen", "running", kit.HasPhase(corev1.PodRunning))
	way.Requests.Break(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			return false
		}
		kit.WriteStatus(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return true
	})
	way.Requests.EndWatches(false)
	if kit.IsReady(pods.Await("unseen", "there", func(p *corev1.Pod) bool { return p != nil })) {
		t.Fatal("it is ready too early: this shows nothing")
	}
	_, err := pods.Patch(t.Context(), "unseen", types.StrategicMergePatchType, []byte(`{"status":{"phase":"Pending"}}`), metav1.PatchOptions{}, "status")
	kit.Must(t, err)

	pods.Await("unseen", "ready", kit.IsReady)
	way.Requests.Mend()
	pods.AwaitWithin(kit.ShortTimeout, "unseen", "put right", func(p *corev1.Pod) bool { return kit.IsReady(p) && p.Status.Phase == corev1.PodRunning })
	pods.MustRemove("unseen")
}

// liveThrough runs pods from their creation to their end, and checks that no status of them is
// lost.
func liveThrough(pods kit.Pods, name string) {
	pods.T.Helper()
	pods.MustCreate(kit.OnNode(kit.WorkloadPod("runs-"+name, "sleep"), "one"), kit.OnNode(kit.WithoutRestart(kit.WorkloadPod("ends-"+name, "exit", "5")), "one"))
	lives := kit.InstanceOf(pods.Await("runs-"+name, "ready", kit.IsReady))
	pods.Await("ends-"+name, "failed", func(p *corev1.Pod) bool {
		return kit.HasPhase(corev1.PodFailed)(p) && p.Status.ContainerStatuses[0].State.Terminated.ExitCode == 5
	})
	kit.MustKeepInstance(pods.T, pods.Await("runs-"+name, "ready", kit.IsReady), lives)
	pods.MustRemove("runs-"+name, "ends-"+name)
}
