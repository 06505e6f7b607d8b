package waterfall

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"berth/internal/lib/pod"
)

const web = pod.UID("web")

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func TestAStartFromEndToEnd(t *testing.T) {
	// Given a pod whose image has to be pulled, so that the phase spans two syncs,
	r := New(10)
	r.Open(web, at(0))
	r.Begin(web, Pull, "app", at(1))
	r.Begin(web, Pull, "app", at(2)) // the next sync asks again
	r.End(web, Pull, "app", at(3))
	r.Begin(web, Queue, "", at(3))
	r.End(web, Queue, "", at(4))
	r.Begin(web, Sandbox, "", at(4))
	r.End(web, Sandbox, "", at(5))
	r.Begin(web, Start, "app", at(5))
	// when its container is started,
	took, ok := r.End(web, Start, "app", at(7))
	if took != 2*time.Second || !ok {
		t.Errorf("the start took %v, %v", took, ok)
	}
	// then it is waited for until it is ready.
	got, _ := r.Finish(web, at(9))
	want := Waterfall{Seen: at(0), Done: true, Spans: []Span{
		{Pull, "app", at(1), at(3)}, {Queue, "", at(3), at(4)}, {Sandbox, "", at(4), at(5)}, {Start, "app", at(5), at(7)}, {Ready, "", at(7), at(9)},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestReadyBeginsWithTheLastStart(t *testing.T) {
	r := New(10)
	r.Open(web, at(0))
	for i, container := range []string{"a", "b"} {
		r.Begin(web, Start, container, at(2*i))
		r.End(web, Start, container, at(2*i+1))
	}

	got, _ := r.Get(web)

	if last := got.Spans[len(got.Spans)-1]; last != (Span{Phase: Ready, Start: at(3)}) {
		t.Errorf("got %+v", last)
	}
	if len(got.Spans) != 3 {
		t.Errorf("there are %d spans: ready must not be there twice", len(got.Spans))
	}
}

func TestARestartDoesNotChangeTheStart(t *testing.T) {
	r := New(10)
	r.Open(web, at(0))
	r.Begin(web, Start, "app", at(1))
	r.End(web, Start, "app", at(2))
	before, _ := r.Finish(web, at(3))

	r.Begin(web, Start, "app", at(60))
	_, counted := r.End(web, Start, "app", at(61))
	_, again := r.Finish(web, at(62))

	after, _ := r.Get(web)
	if !reflect.DeepEqual(before, after) || counted || again {
		t.Errorf("got %+v, counted %v, finished again %v", after, counted, again)
	}
}

func TestAPodThatWasUpBeforeHasNone(t *testing.T) {
	r := New(10)

	r.Begin(web, Volumes, "", at(1))
	r.End(web, Volumes, "", at(2))

	if _, ok := r.Get(web); ok {
		t.Error("there is a waterfall of a pod that nobody started")
	}
}

func TestOnlySoManyPodsAreKept(t *testing.T) {
	r := New(3)
	for i := range 5 {
		if !r.Open(pod.UID(strconv.Itoa(i)), at(i)) {
			t.Errorf("pod %d is not new", i)
		}
	}
	if r.Open("4", at(9)) {
		t.Error("a pod that is known is new")
	}
	for i := range 5 {
		if _, ok := r.Get(pod.UID(strconv.Itoa(i))); ok != (i >= 2) {
			t.Errorf("pod %d is kept: %v", i, ok)
		}
	}
	r.Forget("3")
	if _, ok := r.Get("3"); ok || len(r.ages) != 2 {
		t.Errorf("a pod that is gone is kept, or its age is: %v", r.ages)
	}
}

func TestSpansAreBounded(t *testing.T) {
	r := New(1)
	r.Open(web, at(0))
	for i := range 3 * maxSpans {
		r.Begin(web, Create, strconv.Itoa(i), at(i))
	}
	if got, _ := r.Get(web); len(got.Spans) != maxSpans {
		t.Errorf("there are %d spans", len(got.Spans))
	}
}

func TestReadersGetCopies(t *testing.T) {
	r := New(1)
	r.Open(web, at(0))
	r.Begin(web, Create, "app", at(1))
	got, _ := r.Get(web)

	got.Spans[0].Container = "other"

	if again, _ := r.Get(web); again.Spans[0].Container != "app" {
		t.Error("a reader changed what is kept")
	}
}
