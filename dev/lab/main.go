//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fleet-hub/fleet/dev/lab/nodes"
)

func main() {
	if code, played := nodes.Role(os.Args, os.Stderr); played {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	t0 := time.Now()
	l, err := nodes.Start(ctx, nodes.Options{Names: os.Args[1:], Progress: func(f string, a ...any) { fmt.Printf(f+"\n", a...) }})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(time.Since(t0), l.LogDir)
	for _, n := range l.Nodes {
		fmt.Println(n.KubeconfigPath)
	}
	<-ctx.Done()
	_ = syscall.Getpid
	fmt.Println(l.Stop())
}
