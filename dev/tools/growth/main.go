package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := command(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "growth: %v\n", err)
		os.Exit(1)
	}
}

// errUsage means that a flag is missing.
var errUsage = errors.New("run with -h to see the usage")

func command(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("growth", flag.ContinueOnError)
	flags.SetOutput(out)
	from := flags.String("from", "", "JSON file that the benchmark wrote with -growth")
	to := flags.String("to", "", "SVG file to write")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("parsing the flags: %w", err)
	}
	if *from == "" || *to == "" {
		return fmt.Errorf("-from and -to are required: %w", errUsage)
	}
	text, err := os.ReadFile(*from)
	if err != nil {
		return fmt.Errorf("reading the curve: %w", err)
	}
	c, err := read(text)
	if err != nil {
		return fmt.Errorf("reading the curve from %s: %w", *from, err)
	}
	file, err := os.Create(*to)
	if err != nil {
		return fmt.Errorf("creating the drawing: %w", err)
	}
	return errors.Join(render(c, file), file.Close())
}

// curve is the part of the JSON document that is drawn.
type curve struct {
	Title  string  `json:"title"`
	Points []point `json:"points"`
}

// point holds the figures of the clusters that registered since the point before.
type point struct {
	Clusters         int     `json:"clusters"`
	PerSecond        float64 `json:"registrationsPerSecond"`
	ControllerMillis float64 `json:"controllerCPUMillisEach"`
	APIServerMillis  float64 `json:"apiServerCPUMillisEach"`
	ControllerMiB    float64 `json:"controllerRSSMiB"`
	APIServerMiB     float64 `json:"apiServerRSSMiB"`
}

// errEmpty means that nothing was measured.
var errEmpty = errors.New("it has no points")

func read(text []byte) (curve, error) {
	var c curve
	if err := json.Unmarshal(text, &c); err != nil {
		return curve{}, fmt.Errorf("parsing JSON: %w", err)
	}
	if len(c.Points) == 0 {
		return curve{}, errEmpty
	}
	return c, nil
}
