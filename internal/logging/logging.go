// Package logging makes the one logger of a process and sends there what the libraries log.
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

// Options of New.
type Options struct {
	// Writer is where lines go. Required.
	Writer io.Writer
	// Debug also writes what was looked at, not only what changed.
	Debug bool
	// Level is client-go's verbosity (klog's -v); it counts only with Debug.
	Level int
	// Format of the lines; empty is Text.
	Format Format
}

// Format is what a line looks like.
type Format string

const (
	// Text is key=value pairs.
	Text Format = "text"
	// JSON is one JSON object for each line.
	JSON Format = "json"
)

// New makes a logger.
func New(o Options) *slog.Logger {
	level := slog.LevelInfo
	if o.Debug {
		level = slog.LevelDebug
	}
	if o.Format == JSON {
		return slog.New(slog.NewJSONHandler(o.Writer, &slog.HandlerOptions{Level: level, ReplaceAttr: readable}))
	}
	return slog.New(slog.NewTextHandler(o.Writer, &slog.HandlerOptions{Level: level}))
}

// readable writes durations as in text, "1.5s"; as numbers they would be nanoseconds.
func readable(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() == slog.KindDuration {
		attr.Value = slog.StringValue(attr.Value.Duration().String())
	}
	return attr
}

// Bridge sends the libraries' lines to the logger. The libraries keep their loggers in package variables, so it is
// called once, before any of them is used.
func Bridge(logger *slog.Logger, o Options) {
	client := logger.With("library", "client-go")
	klog.SetSlogLogger(client)
	if o.Debug && o.Level > 0 {
		var verbosity klog.Level
		_ = verbosity.Set(fmt.Sprint(o.Level)) // a number always parses
	}

	caches := logger.With("library", "lasso")
	log.Infof = func(format string, args ...any) { caches.Debug("controller", "detail", fmt.Sprintf(format, args...)) }
	log.Errorf = func(format string, args ...any) { caches.Error("controller", "error", fmt.Sprintf(format, args...)) }
	log.Debugf = func(format string, args ...any) { caches.Debug("controller", "detail", fmt.Sprintf(format, args...)) }

	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.InfoLevel)
	if o.Debug {
		logrus.SetLevel(logrus.DebugLevel)
	}
	logrus.AddHook(hook{logger: logger.With("library", "wrangler")})
}

// hook hands logrus' lines on.
type hook struct{ logger *slog.Logger }

// Levels are all.
func (hook) Levels() []logrus.Level { return logrus.AllLevels }

// Fire hands one line on, at the level that means the same here. Its info is our debug: libraries tell of what
// they look at.
func (h hook) Fire(entry *logrus.Entry) error {
	args := []any{"detail", entry.Message}
	for key, value := range entry.Data {
		args = append(args, key, value)
	}
	switch {
	case entry.Level <= logrus.ErrorLevel:
		h.logger.Error("controller", args...)
	case entry.Level == logrus.WarnLevel:
		h.logger.Warn("controller", args...)
	default:
		h.logger.Debug("controller", args...)
	}
	return nil
}
