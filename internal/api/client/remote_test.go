package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// startRemote starts a node that answers a few paths, and returns the way to it.
func startRemote(t *testing.T, paths map[string]http.HandlerFunc) *RemoteNode {
	t.Helper()
	mux := http.NewServeMux()
	for path, serve := range paths {
		mux.HandleFunc("GET "+path, serve)
	}
	s := httptest.NewTLSServer(mux)
	t.Cleanup(s.Close)
	n, err := NewRemote(Remote{Server: s.URL, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func sends(value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(value) }
}

func TestARemoteNodeIsAsked(t *testing.T) {
	t.Parallel()
	web, other := running("web"), running("other")
	web.Namespace = "default"
	web.Spec.Containers = append(web.Spec.Containers, v1.Container{Name: "side"})
	asked := make(chan string, 1)
	n := startRemote(t, map[string]http.HandlerFunc{
		"/pods":          sends(v1.PodList{Items: []v1.Pod{web, other}}),
		"/stats/summary": sends(stats.Summary{Node: stats.NodeStats{NodeName: "one"}}),
		"/containerLogs/{namespace}/{pod}/{container}": func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.String()
			_, _ = io.WriteString(w, "line\n")
		},
	})
	// Pods are chosen as those of this machine are.
	for text, want := range map[Filter]string{{}: "web other", {Namespace: "x"}: "other", {Name: "web"}: "web", {Namespace: "y"}: ""} {
		list, err := n.Pods(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range list.Pods.Items {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%+v: got %q, want %q", text, got, want)
		}
	}
	_, err := n.Pods(t.Context(), Filter{Name: "nope"})
	wantError(t, err, `pod "nope" not found`)
	if s, err := n.Summary(t.Context()); err != nil || s.Node.NodeName != "one" {
		t.Errorf("got %+v, %v", s, err)
	}
	// A log is asked for in the words of every kubelet.
	log, err := n.Log(t.Context(), LogRequest{
		Pod: "web", Tail: 3, Follow: true, Timestamps: true, Previous: true, LimitBytes: 7, Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := errors.Join(log.CopyTo(&text), log.Close()); err != nil || text.String() != "line\n" || log.Container != "app" || len(log.Choice) != 2 {
		t.Errorf("got %q, %v, %s, %v", text.String(), err, log.Container, log.Choice)
	}
	const want = "/containerLogs/default/web/app?follow=true&limitBytes=7&previous=true&sinceTime=2026-01-02T03%3A04%3A05.000000006Z&tailLines=3&timestamps=true"
	if got := <-asked; got != want {
		t.Errorf("asked for %s", got)
	}
	_, err = n.Log(t.Context(), LogRequest{Pod: "web", Container: "nope"})
	wantError(t, err, `has no container "nope": it has app, side`)
}

func TestALogFromAfarThatBreaksOff(t *testing.T) {
	t.Parallel()
	n := startRemote(t, map[string]http.HandlerFunc{
		"/pods": sends(v1.PodList{Items: []v1.Pod{running("web")}}),
		"/containerLogs/{namespace}/{pod}/{container}": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "line\n")
			_ = http.NewResponseController(w).Flush()
			if r.FormValue("follow") == "true" {
				<-r.Context().Done()
			}
			panic(http.ErrAbortHandler)
		},
	})
	// The node goes away
	log, err := n.Log(t.Context(), LogRequest{Pod: "web", Tail: -1})
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, log.CopyTo(io.Discard), "the log from "+n.name+" broke off", "try again")
	_ = log.Close()
	// The reader does
	ctx, cancel := context.WithCancel(t.Context())
	log, err = n.Log(ctx, LogRequest{Pod: "web", Tail: -1, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := log.CopyTo(io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_ = log.Close()
}

func TestRemoteNodes(t *testing.T) {
	for text, r := range map[string]Remote{
		"give it as in https://node-1:10250": {Server: "http://node-1:10250"},
		"give both --client-certificate":     {Server: "https://node-1:10250", CertFile: "x"},
		"exclude each other":                 {Server: "https://node-1:10250", CAFile: "x", Insecure: true},
		"prepare to talk to":                 {Server: "https://node-1:10250", CAFile: "/nonexistent"},
	} {
		_, err := NewRemote(r)
		wantError(t, err, text)
	}
	answer := http.StatusUnauthorized
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", answer) }))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // a handshake fails below
	t.Cleanup(s.Close)
	n, err := NewRemote(Remote{Server: s.URL, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "does not know who you are", "--client-certificate")
	answer = http.StatusForbidden
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "does not let you read its pods", "nodes/proxy")
	answer = http.StatusTeapot
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "answered 418 I'm a teapot: no")
	n, err = NewRemote(Remote{Server: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "--certificate-authority")
	n, err = NewRemote(Remote{Server: strings.Replace(s.URL, "127.0.0.1", "localhost", 1)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.Pod(t.Context(), Filter{Name: "web"})
	wantError(t, err, "does not have that name", "the name of the node")
}
