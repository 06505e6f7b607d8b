package cri

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"berth/internal/lib/pod"
)

// sharedRuntime returns a runtime with pods of the roots "mine" and "theirs", and of older agents.
func sharedRuntime() *server {
	s := &server{statuses: map[string]*runtimeapi.ContainerStatus{}}
	add := func(uid, root, logs string) {
		of := func(container string) map[string]string {
			l := labels(uid, container)
			if root != "" {
				l[pod.LabelRoot] = root
			}
			return l
		}
		s.sandboxes = append(s.sandboxes, &runtimeapi.PodSandbox{Id: uid + "-sandbox", Labels: of("")})
		s.containers = append(s.containers, &runtimeapi.Container{Id: uid + "-app", PodSandboxId: uid + "-sandbox", Labels: of("app")})
		s.statuses[uid+"-app"] = &runtimeapi.ContainerStatus{LogPath: logs + "/shop_web_" + uid + "/app/0.log"}
	}
	add("mine", "mine", "/logs")
	add("theirs", "theirs", "/other")
	add("mine-old", "", "/logs")
	add("theirs-old", "", "/other")
	return s
}

func sharingClient(t *testing.T, s *server, ownsLogs func(string) bool) *Client {
	t.Helper()
	at := socket(t)
	s.serve(t, at)
	c, err := New(Config{RuntimeEndpoint: "unix://" + at, Timeout: 10 * time.Second, Root: "mine", OwnsLogs: ownsLogs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func listed(pods map[pod.UID]*pod.Observed) []string {
	var out []string
	for uid, p := range pods {
		if len(p.Sandboxes) != 1 || len(p.Containers) != 1 {
			out = append(out, "half of "+string(uid))
			continue
		}
		out = append(out, string(uid))
	}
	slices.Sort(out)
	return out
}

func TestPodsOfAnotherRootAreNotThere(t *testing.T) {
	s := sharedRuntime()
	// given a runtime that others have, too
	c := sharingClient(t, s, func(dir string) bool { return strings.HasPrefix(dir, "/logs/") })
	for range 2 { // the second time it remembers
		pods, err := c.List(t.Context())
		if want := []string{"mine", "mine-old"}; err != nil || !slices.Equal(listed(pods), want) {
			t.Errorf("got %v, %v, want %v", listed(pods), err, want)
		}
	}
	for uid, want := range map[pod.UID]int{"mine": 1, "mine-old": 1, "theirs": 0, "theirs-old": 0} {
		if got, err := c.Pod(t.Context(), uid); err != nil || len(got.Sandboxes) != want || len(got.Containers) != want {
			t.Errorf("%s: got %+v, %v", uid, got, err)
		}
	}
	all, err := c.ListAll(t.Context())
	if want := []string{"mine", "mine-old", "theirs", "theirs-old"}; err != nil || !slices.Equal(listed(all), want) {
		t.Errorf("got %v, %v, want %v", listed(all), err, want)
	}
	if got := len(c.verdicts.ours); got != 2 {
		t.Errorf("it remembers %d sandboxes, and two are without an id", got)
	}
	s.sandboxes, s.containers = nil, nil
	if _, err := c.List(t.Context()); err != nil || len(c.verdicts.ours) != 0 {
		t.Errorf("it remembers %v of what is gone, %v", c.verdicts.ours, err)
	}
}

// Another agent may have been given our own runtime.
func TestInOurOwnRuntimeAllThatHasNoIDIsOurs(t *testing.T) {
	pods, err := sharingClient(t, sharedRuntime(), nil).List(t.Context())
	if want := []string{"mine", "mine-old", "theirs-old"}; err != nil || !slices.Equal(listed(pods), want) {
		t.Errorf("got %v, %v, want %v", listed(pods), err, want)
	}
}

func TestASandboxWithoutContainersIsKnownByItsLogs(t *testing.T) {
	s := &server{sandboxes: []*runtimeapi.PodSandbox{{Id: "a", Labels: labels("uid", "")}}, answers: map[string]proto.Message{}}
	c := sharingClient(t, s, func(dir string) bool { return dir == "/logs/shop_web_uid" })
	for info, want := range map[string]int{
		`{"pid":1,"config":{"log_directory":"/logs/shop_web_uid"}}`: 1,
		`{"config":{"log_directory":"/other/shop_web_uid"}}`:        0,
		"not JSON": 0, "": 0,
	} {
		s.answers["PodSandboxStatus"] = &runtimeapi.PodSandboxStatusResponse{Info: map[string]string{"info": info}}
		c.verdicts.keep(nil)
		pods, err := c.List(t.Context())
		if err != nil || len(pods) != want {
			t.Errorf("%s: got %v, %v", info, pods, err)
		}
	}
}
