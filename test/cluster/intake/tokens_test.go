//go:build real

package intake

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/lab"
)

// tokenLife is the shortest lifetime of a token that the API server allows.
const tokenLife = 600 * time.Second

// audiences are the audiences that a bearer has tokens for. The API server's own is not among them,
// for it makes some of its tokens live longer than they say. There are three because the machine may
// be busy at one moment.
var audiences = []string{"bank", "club", "mail"}

// bearer is a pod that notes which tokens it sees in its volume.
func bearer(name, node string) *corev1.Pod {
	var paths []string
	var sources []corev1.VolumeProjection
	for _, audience := range audiences {
		paths = append(paths, "/disk/"+audience)
		sources = append(sources, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: audience, ExpirationSeconds: new(int64(tokenLife.Seconds())), Path: audience,
		}})
	}
	p := kit.OnNode(kit.WorkloadPod(name, append([]string{"tokens"}, paths...)...), node)
	return kit.WithVolume(p, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}})
}

// seenToken is a token that a container has found in its volume.
type seenToken struct {
	at time.Time

	Audiences []string `json:"aud"`
	IssuedAt  int64    `json:"iat"` // seconds
	ExpiresAt int64    `json:"exp"`
}

func (s seenToken) issued() time.Time   { return time.Unix(s.IssuedAt, 0) }
func (s seenToken) expires() time.Time  { return time.Unix(s.ExpiresAt, 0) }
func (s seenToken) life() time.Duration { return s.expires().Sub(s.issued()) }

func parseToken(line string) (seenToken, error) {
	var s seenToken
	when, claims, _ := strings.Cut(line, " ")
	at, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return s, err
	}
	s.at = time.Unix(0, at)
	return s, json.Unmarshal([]byte(claims), &s)
}

// awaitTokens follows the log of a bearer until it has seen so many tokens for each
// audience, and returns them in their order.
func awaitTokens(t *testing.T, pods kit.Pods, name string, each int, limit time.Duration) map[string][]seenToken {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var seen map[string][]seenToken
	kit.Within(t, limit, func() error {
		seen = map[string][]seenToken{}
		log, err := pods.GetLogs(name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
		if err != nil {
			return err
		}
		defer log.Close()
		lines := bufio.NewScanner(log)
		for slices.ContainsFunc(audiences, func(a string) bool { return len(seen[a]) < each }) {
			if !lines.Scan() {
				return fmt.Errorf("its log ended after %v: %w", seen, lines.Err())
			}
			token, err := parseToken(lines.Text())
			kit.Must(t, err)
			if len(token.Audiences) != 1 {
				t.Fatalf("it has a token for %q", token.Audiences)
			}
			seen[token.Audiences[0]] = append(seen[token.Audiences[0]], token)
		}
		return nil
	})
	return seen
}

// It takes eight minutes, of which it waits for most.
func TestATokenIsRefreshedInTheContainerBeforeItExpires(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "old-tokens")
	pods := kit.PodsIn(t, admin, "old-tokens")
	pods.MustCreate(bearer("bearer", "one"))
	before := pods.Await("bearer", "ready", kit.IsReady)

	// Given tokens of ten minutes, when these are about to end.
	seen := awaitTokens(t, pods, "bearer", 2, tokenLife)

	// Then each was replaced after four fifths of them, or up to ten seconds earlier, ...
	var took []time.Duration
	for _, audience := range audiences {
		first, second := seen[audience][0], seen[audience][1]
		if first.life() != tokenLife || second.life() != tokenLife || !second.at.Before(first.expires()) {
			t.Errorf("for %s, the first was %+v and the second %+v", audience, first, second)
		}
		due := tokenLife / 5 * 4
		if age := second.issued().Sub(first.issued()); age < due-11*time.Second || age > due+5*time.Second {
			t.Errorf("for %s, a new one was asked for after %s", audience, age)
		}
		took = append(took, second.at.Sub(second.issued()).Round(time.Millisecond))
	}
	mustHaveGoodTokens(t, l.Nodes()[0], admin, before)

	// ... and the container saw it within a second. That of its issue is another one.
	slices.Sort(took)
	t.Logf("tokens were in the container %v after the second in which they were issued began", took)
	if took[len(took)/2] > 2*time.Second {
		t.Error("they are seen too late")
	}
	kit.MustKeepInstance(t, pods.Await("bearer", "ready", kit.IsReady), kit.InstanceOf(before))
	pods.MustRemove("bearer")
}

// mustHaveGoodTokens fails the test if the API server does not take the tokens that are in
// the volume of a bearer for those of the pod, or if its container has not seen them.
func mustHaveGoodTokens(t *testing.T, n *lab.Node, admin kubernetes.Interface, p *corev1.Pod) {
	t.Helper()
	log, err := admin.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	kit.Must(t, err)
	for _, audience := range audiences {
		token, err := os.ReadFile(filepath.Join(n.Root, "pods", string(p.UID), "volumes", "kubernetes.io~projected", "disk", audience))
		kit.Must(t, err)
		review, err := admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: string(token), Audiences: []string{audience}},
		}, kit.CreateOptions)
		kit.Must(t, err)
		user := review.Status.User
		if !review.Status.Authenticated || !slices.Equal(review.Status.Audiences, []string{audience}) || user.Username != "system:serviceaccount:"+p.Namespace+":default" {
			t.Fatalf("the token for %s is that of %q: %+v", audience, user.Username, review.Status)
		}
		extra := func(key string) string { return strings.Join(user.Extra["authentication.kubernetes.io/"+key], " ") }
		for key, want := range map[string]string{"pod-name": p.Name, "pod-uid": string(p.UID), "node-name": n.Name} {
			if got := extra(key); got != want {
				t.Errorf("the token for %s has the %s %q, and should have %q", audience, key, got, want)
			}
		}
		if id, ok := strings.CutPrefix(extra("credential-id"), "JTI="); !ok || !strings.Contains(string(log), id) {
			t.Errorf("the container has not seen the token %q for %s", id, audience)
		}
	}
}

// An agent keeps no token on disk, and so does not know how old those are that it finds.
// Not parallel: it takes the agent of a node.
func TestARestartedAgentGetsNewTokens(t *testing.T) {
	l, admin := kit.SharedNamespace(t, "new-tokens")
	two := l.Nodes()[1]
	pods := kit.PodsIn(t, admin, "new-tokens")
	pods.MustCreate(bearer("bearer", "two"))
	before := pods.Await("bearer", "ready", kit.IsReady)
	awaitTokens(t, pods, "bearer", 1, kit.ShortTimeout)

	two.Kill()
	kit.Must(t, two.Start())

	awaitTokens(t, pods, "bearer", 2, kit.WaitTimeout)
	mustHaveGoodTokens(t, two, admin, before)
	kit.MustKeepInstance(t, pods.Await("bearer", "ready", kit.IsReady), kit.InstanceOf(before))
	pods.MustRemove("bearer")
}
