package process

import (
	"os"
	"sync"
)

// maxLog is how long the log of a program gets before it is set aside. Only one older
// piece is kept: one that floods its log for hours fills no disk.
const maxLog = 16 << 20

// logFile is a log that stays small. What is written to it is never refused, since a
// program would stop or block if it was.
type logFile struct {
	path  string
	limit int

	mu   sync.Mutex
	file *os.File // nil if it could not be opened
	size int
}

func openLog(path string, limit int) (*logFile, error) {
	l := &logFile{path: path, limit: limit}
	return l, l.open()
}

func (l *logFile) open() error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	l.file, l.size = file, int(info.Size())
	return nil
}

// Write implements io.Writer. It always says that all is well.
func (l *logFile) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > l.limit && l.file != nil {
		_ = l.file.Close()
		l.file = nil
		if err := os.Rename(l.path, l.path+".old"); err == nil {
			_ = l.open() // on failure, the rest is lost
		}
	}
	if l.file != nil {
		n, _ := l.file.Write(text)
		l.size += n
	}
	return len(text), nil
}

func (l *logFile) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// Tail returns the last most bytes of a file, for messages.
func Tail(path string, most int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		text = append([]byte("...\n"), text[len(text)-most:]...)
	}
	return string(text)
}
