package logonce

import (
	"testing"
	"time"
)

func TestARowIsToldWhenItBeginsAndWhenItIsOver(t *testing.T) {
	var r Streak
	now := time.Unix(1000, 0)
	if r.Recovered() {
		t.Error("there was no trouble")
	}
	if !r.Failed(now) {
		t.Error("the first failure is not told")
	}
	if r.Failed(now.Add(time.Second)) || r.Failed(now.Add(time.Hour)) {
		t.Error("it is told again")
	}
	if !r.Recovered() || r.Recovered() {
		t.Error("its end is told once")
	}
}

func TestTroubleThatComesAndGoes(t *testing.T) {
	var r Streak
	lines := 0
	count := func(said bool) {
		if said {
			lines++
		}
	}
	for i := range 600 { // ten times a second
		count(r.Failed(time.Unix(1000, int64(i)*1e8)))
		count(r.Recovered())
	}
	if lines != 2 {
		t.Errorf("%d lines in a minute", lines)
	}
}

func TestARowThatLastsIsTold(t *testing.T) {
	var r Streak
	now := time.Unix(1000, 0)
	r.Failed(now)
	r.Recovered()
	if r.Failed(now.Add(10 * time.Second)) {
		t.Error("it is told ten seconds after the last")
	}
	if !r.Failed(now.Add(Pause)) || !r.Recovered() {
		t.Error("it lasts, and nobody is told")
	}
}
