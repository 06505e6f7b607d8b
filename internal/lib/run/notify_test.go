package run

import "testing"

func TestNotificationsThatWereNotReceivedCountAsOne(t *testing.T) {
	c := make(chan struct{}, 1)
	Notify(c)
	Notify(c)
	<-c
	select {
	case <-c:
		t.Error("there is a second one")
	default:
	}
	Notify(c)
	<-c
}
