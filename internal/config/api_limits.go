package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// APILimits are how much clients may ask of the node's API. What is zero was not given:
// the API has a default for it.
type APILimits struct {
	Connections           int
	ConnectionsPerAddress int
	Streams               int // exec, attach, port-forward and logs, at a time
	StreamsPerUser        int
	ReviewsPerSecond      int // that the cluster is asked for, for one address
	HeaderBytes           int
	BodyBytes             int
	RequestTimeout        time.Duration // until a request was read
	AnswerTimeout         time.Duration // for what is not a stream
	IdleTimeout           time.Duration // between two requests on a connection
}

// numbers and times are the limits by their names in --api-limits.
func (a *APILimits) numbers() map[string]*int {
	return map[string]*int{
		"connections": &a.Connections, "connections-per-address": &a.ConnectionsPerAddress,
		"streams": &a.Streams, "streams-per-user": &a.StreamsPerUser, "reviews-per-second": &a.ReviewsPerSecond,
		"header-bytes": &a.HeaderBytes, "body-bytes": &a.BodyBytes,
	}
}

func (a *APILimits) times() map[string]*time.Duration {
	return map[string]*time.Duration{
		"request-timeout": &a.RequestTimeout, "answer-timeout": &a.AnswerTimeout, "idle-timeout": &a.IdleTimeout,
	}
}

func apiLimitNames() []string {
	var a APILimits
	return append(slices.Sorted(maps.Keys(a.numbers())), slices.Sorted(maps.Keys(a.times()))...)
}

func (l *loader) apiLimits(given map[string]string) APILimits {
	var a APILimits
	numbers, times := a.numbers(), a.times()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		text := given[name]
		if number, ok := numbers[name]; ok {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 {
				l.fail("--api-limits", name+"="+text, "want a number of 1 or more")
			}
			*number = n
			continue
		}
		limit, ok := times[name]
		if !ok {
			l.fail("--api-limits", name, "there is no such limit: the limits are %s", strings.Join(apiLimitNames(), ", "))
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < minDuration {
			l.fail("--api-limits", name+"="+text, "want a time such as 30s, of %s or more", minDuration)
		}
		*limit = d
	}
	return a
}
