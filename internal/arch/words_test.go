package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// retiredHeading is the heading of docs/words.md whose table lists retired words in its first column.
const retiredHeading = "## Retired words"

// camelWord matches the words of an identifier.
var camelWord = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

// A word that was replaced does not come back as a part of an identifier or of a file's name. Tests
// are named by sentences, in which any word may stand.
func TestRetiredWordsAreNotUsed(t *testing.T) {
	retired := retiredWords(t)
	check := func(where, name string) {
		for _, word := range camelWord.FindAllString(name, -1) {
			if instead, ok := retired[strings.ToLower(word)]; ok && !strings.HasPrefix(name, "Test") {
				t.Errorf("%s: %s has the retired word %q: write %s (docs/words.md)", where, name, strings.ToLower(word), instead)
			}
		}
	}
	for _, top := range []string{"cmd", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join(repository, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || filepath.Ext(path) != ".go" {
				return err
			}
			file, err := filepath.Rel(repository, path)
			if err != nil {
				return err
			}
			check(file, strings.TrimSuffix(filepath.Base(file), ".go"))
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, id := range declaredIn(parsed) {
				check(strings.TrimPrefix(files.Position(id.Pos()).String(), repository+"/"), id.Name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// retiredWords reads the table of docs/words.md: the retired words, and what to write instead.
func retiredWords(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "docs/words.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n"+retiredHeading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	words := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "not" {
			continue
		}
		for word := range strings.SplitSeq(cells[1], ",") {
			words[strings.TrimSpace(word)] = strings.TrimSpace(cells[2])
		}
	}
	if len(words) == 0 {
		t.Fatalf("docs/words.md has no table below %q", retiredHeading)
	}
	return words
}

// declaredIn returns the identifiers that a file declares: types, functions, fields, parameters,
// variables and constants.
func declaredIn(file *ast.File) []*ast.Ident {
	ids := []*ast.Ident{file.Name}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			ids = append(ids, n.Name)
		case *ast.TypeSpec:
			ids = append(ids, n.Name)
		case *ast.ValueSpec:
			ids = append(ids, n.Names...)
		case *ast.Field:
			ids = append(ids, n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				ids = appendIdents(ids, n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				ids = appendIdents(ids, n.Key, n.Value)
			}
		}
		return true
	})
	return ids
}

func appendIdents(ids []*ast.Ident, expressions ...ast.Expr) []*ast.Ident {
	for _, e := range expressions {
		if id, ok := e.(*ast.Ident); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
