package bundle

import "testing"

func TestProgressCountsTheImagesThatCome(t *testing.T) {
	app := []layer{{"a", 10}, {"b", 20}, {"c", 30}, {"d", 40}}
	again := []layer{{"a", 10}, {"b", 20}, {"e", 5}}
	done := []layer{{"x", 100}}
	here := map[string]bool{"a": true, "x": true}
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
