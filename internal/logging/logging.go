// Package logging creates the logger of a process and redirects the log lines of libraries to it.
//
//	klog (client-go) ──┐
//	logrus (wrangler) ─┼─► slog ─► the writer
//	lasso ─────────────┘
package logging

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/sirupsen/logrus"

	"github.com/rancher/lasso/pkg/log"
	"k8s.io/klog/v2"
)

// Options configures New.
type Options struct {
	// Writer receives the log lines. Required.
	Writer io.Writer
	// Debug also logs what was checked, not only what changed.
	Debug bool
	// Level is client-go's verbosity (klog's -v). It has an effect only with Debug.
	Level int
	// JSON writes one JSON object per line instead of key=value pairs.
	JSON bool
}

// New returns a logger.
func New(o Options) *slog.Logger {
	level := slog.LevelInfo
	if o.Debug {
		level = slog.LevelDebug
	}
	if o.JSON {
		return slog.New(slog.NewJSONHandler(o.Writer, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
	}
	return slog.New(slog.NewTextHandler(o.Writer, &slog.HandlerOptions{Level: level}))
}

// readable formats durations as in the text format, "1.5s". Otherwise they would be nanoseconds.
func readable(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindDuration {
		attr.Value = slog.StringValue(attr.Value.Duration().String())
	}
	return attr
}

// Bridge redirects the libraries' log lines to the logger. The libraries keep their loggers in package
// variables, so it is called once, before any of them is used.
func Bridge(logger *slog.Logger, o Options) {
	client := logger.With("library", "client-go")
	klog.SetSlogLogger(client)
	if o.Debug && o.Level > 0 {
		var verbosity klog.Level
		_ = verbosity.Set(fmt.Sprint(o.Level)) // a number always parses
	}

	caches := logger.With("library", "lasso")
	log.Infof = func(format string, args ...any) {
		caches.Debug("controller library message", "detail", fmt.Sprintf(format, args...))
	}
	log.Errorf = func(format string, args ...any) {
		caches.Error("controller library reports an error", "error", fmt.Sprintf(format, args...))
	}
	log.Debugf = func(format string, args ...any) {
		caches.Debug("controller library message", "detail", fmt.Sprintf(format, args...))
	}

	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.InfoLevel)
	if o.Debug {
		logrus.SetLevel(logrus.DebugLevel)
	}
	logrus.AddHook(hook{logger: logger.With("library", "wrangler")})
}

// hook forwards the lines of logrus.
type hook struct{ logger *slog.Logger }

// Levels returns all levels.
func (hook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire forwards one line with the corresponding level. Info becomes debug, because at info the libraries report
// routine work.
func (h hook) Fire(entry *logrus.Entry) error {
	args := []any{"detail", entry.Message}
	for key, value := range entry.Data {
		args = append(args, key, value)
	}
	switch {
	case entry.Level <= logrus.ErrorLevel:
		h.logger.Error("controller library reports an error", args...)
	case entry.Level == logrus.WarnLevel:
		h.logger.Warn("controller library warns", args...)
	default:
		h.logger.Debug("controller library message", args...)
	}
	return nil
}
