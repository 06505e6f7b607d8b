package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	content "github.com/containerd/containerd/api/services/content/v1"
	"google.golang.org/grpc"
)

// shelf is a store of content. What is not on it is empty.
type shelf struct {
	content.ContentClient
	blobs map[string]string
	down  bool
	reads map[string]int
}

type blob struct {
	content.Content_ReadClient
	text string
	sent bool
}

func (s *shelf) Read(_ context.Context, r *content.ReadContentRequest, _ ...grpc.CallOption) (content.Content_ReadClient, error) {
	if s.down {
		return nil, errors.New("connection refused")
	}
	s.reads[r.GetDigest()]++
	return &blob{text: s.blobs[r.GetDigest()]}, nil
}

func (b *blob) Recv() (*content.ReadContentResponse, error) {
	if b.sent {
		return nil, io.EOF
	}
	b.sent = true
	return &content.ReadContentResponse{Data: []byte(b.text)}, nil
}

func TestContentIsReadOnceAndAFewAtATime(t *testing.T) {
	// given a repository of many small layers, with one manifest among them
	s, here := &shelf{blobs: map[string]string{"manifest": `{"layers":[{"digest":"a","size":10}]}`}, reads: map[string]int{}}, map[string]int64{"manifest": 100, "large": maxManifest + 1}
	for i := range 3 * maxReads {
		here[fmt.Sprint(i)] = 1
	}
	var l contentCache

	// when it is looked for, then a few are read at a time, and none twice
	for round := range 10 {
		if l.manifests(t.Context(), s, here); len(s.reads) > (round+1)*maxReads {
			t.Fatalf("%d were read in %d rounds", len(s.reads), round+1)
		}
	}
	for digest, times := range s.reads {
		if times != 1 || digest == "large" {
			t.Errorf("%s was read %d times", digest, times)
		}
	}
	if got := l.manifests(t.Context(), s, here); len(got) != 1 || len(got[0]) != 1 || len(s.reads) != 3*maxReads+1 {
		t.Errorf("got %v after %d reads", got, len(s.reads))
	}

	// when a look fails, then it is made again
	s.down = true
	l.manifests(t.Context(), s, map[string]int64{"new": 1})
	s.down = false
	l.manifests(t.Context(), s, map[string]int64{"new": 1})
	if s.reads["new"] != 1 {
		t.Error("what could not be read is not looked at again")
	}

	// and what is remembered has an end
	for i := range 2 * maxCached {
		l.remember(fmt.Sprint("more", i), nil)
	}
	if len(l.layersOf) > maxCached {
		t.Errorf("%d are remembered", len(l.layersOf))
	}
}

func TestProgressCountsTheImagesThatCome(t *testing.T) {
	app := []layer{{"a", 10}, {"b", 20}, {"c", 30}, {"d", 40}}
	again := []layer{{"a", 10}, {"b", 20}, {"e", 5}}
	done := []layer{{"x", 100}}
	here := map[string]int64{"a": 10, "x": 100}
	for _, c := range []struct {
		coming map[string]int64
		want   Progress
	}{
		{nil, Progress{}},
		{map[string]int64{"other": 9}, Progress{}},
		{map[string]int64{"c": 7}, Progress{17, 100}},
		{map[string]int64{"c": 7, "d": 99}, Progress{57, 100}}, // the registry lied
		{map[string]int64{"b": 1}, Progress{11, 105}},          // two images share what comes
	} {
		if got := sum([][]layer{app, again, done}, c.coming, here); got != c.want {
			t.Errorf("%v: got %v, want %v", c.coming, got, c.want)
		}
	}
}
