package render

import (
	"maps"
	"strings"
	"testing"
)

func TestVariablesOfAFile(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"":                                {},
		"A='1'":                           {"A": "1"},
		"A='1'\nB='2'\n":                  {"A": "1", "B": "2"},
		"  A='1'  # a comment\n\t\n# B\n": {"A": "1"},
		"A='one\ntwo\n'\nB=''":            {"A": "one\ntwo\n", "B": ""},
		"A='$X \\n \"'":                   {"A": `$X \n "`},
		"A= '1'\nB='2'":                   {"A": "", "B": "2"},
		"A='1'\nA='2'":                    {"A": "1"},
		"A='x=y'":                         {"A": "x=y"},
		"A='1'\r\nB='2'\r\n":              {"A": "1", "B": "2"},
	} {
		got, err := ParseEnvFile(text)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"A":              "line 1 has no =",
		"\nA":            "line 2 has no =",
		"='1'":           "line 1 has no name",
		"A ='1'":         "line 1 has a space before the =",
		"A=1":            "line 1: the value of A must be in single quotes",
		"A=":             "line 1: the value of A must be in single quotes",
		"A=\"1\"":        "must be in single quotes",
		"A='1":           "line 1: the quote is never closed",
		"B=''\nA='1\n\n": "line 2: the quote is never closed",
		"A='1' B='2'":    "line 1 has more after the closing quote",
		"A='1\n'x":       "line 2 has more after",
	} {
		if got, err := ParseEnvFile(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, says)
		}
	}
}

func FuzzAnyFileIsReadOrRefused(f *testing.F) {
	f.Add("A='1'\n")
	f.Add("A='\n'\n#")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseEnvFile(text)
		for name := range got {
			if err != nil || name == "" || !strings.Contains(text, name+"=") {
				t.Errorf("%q: %q, %v", text, name, err)
			}
		}
	})
}
