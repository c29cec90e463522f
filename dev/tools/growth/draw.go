package main

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of the drawing, and the space between two panels.
const (
	width  = 18 * vg.Centimeter
	height = 24 * vg.Centimeter
	margin = 3 * vg.Millimeter
)

// series is one line of a panel.
type series struct {
	name string
	of   func(point) float64
}

// panel is a diagram with its own vertical axis, which begins at zero.
type panel struct {
	unit  string
	lines []series
}

func panels() []panel {
	return []panel{
		{"registrations per second", []series{{"registrations", func(p point) float64 { return p.PerSecond }}}},
		{"CPU per registration, ms", []series{
			{"API server", func(p point) float64 { return p.APIServerMillis }},
			{"controller", func(p point) float64 { return p.ControllerMillis }},
		}},
		{"memory (VmRSS), MiB", []series{
			{"API server", func(p point) float64 { return p.APIServerMiB }},
			{"controller", func(p point) float64 { return p.ControllerMiB }},
		}},
	}
}

// render writes the panels below each other as SVG. The same curve gives the same bytes.
func render(c curve, out io.Writer) error {
	canvas := vgsvg.New(width, height)
	all := panels()
	tiles := divide(canvas, len(all))
	for i, p := range all {
		diagram, err := p.plot(c)
		if err != nil {
			return fmt.Errorf("drawing %q: %w", p.unit, err)
		}
		if i == 0 {
			diagram.Title.Text = c.Title
		}
		diagram.Draw(tiles[i])
	}
	if _, err := canvas.WriteTo(out); err != nil {
		return fmt.Errorf("writing the drawing: %w", err)
	}
	return nil
}

// divide divides a canvas into rows, from top to bottom.
func divide(canvas *vgsvg.Canvas, rows int) (tiles []draw.Canvas) {
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	layout := draw.Tiles{Rows: rows, Cols: 1, PadY: margin, PadTop: margin, PadBottom: margin, PadLeft: margin, PadRight: margin}
	for row := range rows {
		tiles = append(tiles, layout.At(whole, 0, row))
	}
	return tiles
}

func (p panel) plot(c curve) (*plot.Plot, error) {
	diagram := plot.New()
	diagram.X.Label.Text, diagram.Y.Label.Text = "clusters", p.unit
	diagram.Add(plotter.NewGrid())
	for i, s := range p.lines {
		points := make(plotter.XYs, 0, len(c.Points))
		for _, at := range c.Points {
			points = append(points, plotter.XY{X: float64(at.Clusters), Y: s.of(at)})
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("drawing the line of %s: %w", s.name, err)
		}
		line.Color, dots.Color, dots.Shape = plotutil.Color(i), plotutil.Color(i), draw.CircleGlyph{}
		diagram.Add(line, dots)
		diagram.Legend.Add(s.name, line, dots)
	}
	diagram.X.Min, diagram.Y.Min = 0, 0
	diagram.Legend.Top = true
	return diagram, nil
}
