package logonce

import (
	"strconv"
	"testing"
	"time"
)

func TestAStreakIsLoggedWhenItBeginsAndWhenItIsOver(t *testing.T) {
	var r Streak
	now := time.Unix(1000, 0)
	if r.Recovered() {
		t.Error("there was no trouble")
	}
	if !r.Failed(now) {
		t.Error("the first failure is not reported")
	}
	if r.Failed(now.Add(time.Second)) || r.Failed(now.Add(time.Hour)) {
		t.Error("it is reported again")
	}
	if !r.Recovered() || r.Recovered() {
		t.Error("its end is reported once")
	}
}

func TestFailuresThatComeAndGo(t *testing.T) {
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

func TestAStreakThatLastsIsLogged(t *testing.T) {
	var r Streak
	now := time.Unix(1000, 0)
	r.Failed(now)
	r.Recovered()
	if r.Failed(now.Add(10 * time.Second)) {
		t.Error("it is reported ten seconds after the last")
	}
	if !r.Failed(now.Add(Pause)) || !r.Recovered() {
		t.Error("it lasts, and it is not reported")
	}
}

func TestEachKindOfFailureIsLoggedOnce(t *testing.T) {
	var r Streak
	now := time.Unix(1000, 0)
	if !r.FailedAs("refused", now) || !r.FailedAs("timeout", now.Add(time.Second)) {
		t.Error("a kind of failure is not logged")
	}
	if r.FailedAs("refused", now.Add(Pause)) || r.FailedAs("timeout", now.Add(2*Pause)) {
		t.Error("kinds that alternate are logged each time")
	}
	if !r.Recovered() || r.Recovered() {
		t.Error("the recovery is logged once")
	}
}

func TestATextThatChangesEachTimeIsLoggedOnceAMinute(t *testing.T) {
	var r Streak
	lines := 0
	for second := range 600 {
		if r.FailedAs(strconv.Itoa(second), time.Unix(int64(1000+second), 0)) {
			lines++
		}
	}
	if lines < 10 || lines > maxKinds+10 {
		t.Errorf("%d lines in ten minutes", lines)
	}
}
