package salvage

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

type entry struct {
	Count int `json:"count"`
}

func TestOneBadEntryCostsThatEntry(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		want  map[string]entry
		wrong string // part of the error; empty: none
	}{
		"good":          {`{"a": {"count": 1}, "b": {}}`, map[string]entry{"a": {1}, "b": {}}, ""},
		"a newer field": {`{"a": {"count": 1, "colour": "red"}}`, map[string]entry{"a": {1}}, ""},
		"another type":  {`{"a": {"count": 1}, "b": {"count": "two"}, "c": 3}`, map[string]entry{"a": {1}}, `"c": `},
		"null":          {`null`, map[string]entry{}, ""},
		"a list":        {`[]`, map[string]entry{}, "array"},
		"cut off":       {`{"a": {"count": 1}, "b`, map[string]entry{}, "unexpected end"},
		"empty":         {``, map[string]entry{}, "unexpected end"},
	} {
		have, err := Entries[string, entry]([]byte(c.text))
		if !reflect.DeepEqual(have, c.want) {
			t.Errorf("%s: have %v, want %v", name, have, c.want)
		}
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type settings struct {
	Name    string
	Prefix  netip.Prefix
	Port    int `json:"port"`
	Deep    struct{ A, B int }
	private string
}

func TestOneBadFieldKeepsTheValueItHad(t *testing.T) {
	have := settings{Name: "before", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 1, private: "mine"}
	err := Fields([]byte(`{"Name": "now", "Prefix": "everywhere", "port": "http", "Deep": {"A": 1, "C": 2}, "private": "x", "New": {}}`), &have)
	if err == nil || !strings.Contains(err.Error(), "Prefix: ") || !strings.Contains(err.Error(), "port: ") || strings.Contains(err.Error(), "Deep") {
		t.Errorf("have %v", err)
	}
	want := settings{Name: "now", Prefix: netip.MustParsePrefix("10.0.0.0/8"), Port: 1, private: "mine"}
	want.Deep.A = 1
	if have != want {
		t.Errorf("have %+v, want %+v", have, want)
	}
	if err := Fields([]byte("{"), &have); err == nil || have != want {
		t.Errorf("have %+v, %v", have, err)
	}
}
