package handlers_test

import (
	"bytes"
	"image"
	"image/png"
	"math"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// readable checks the contrast of texts in a picture of the page, and that their backgrounds fit its colour
// scheme.
func (b *browser) readable(t *testing.T, fits func(background float64) bool) {
	t.Helper()
	const darkInBoth = ".curl-command pre"
	picture := b.picture(t)
	for _, selector := range []string{
		".info .title", ".info .description p", ".info code", ".opblock-summary-description", ".live-responses-table h5", darkInBoth,
	} {
		background, contrast := b.colours(t, picture, selector)
		if contrast < 4.5 { // WCAG 2.2 requires this for text (1.4.3)
			t.Errorf("%s: contrast %.1f", selector, contrast)
		}
		if selector != darkInBoth && !fits(background) {
			t.Errorf("%s: the background's luminance is %.2f", selector, background)
		}
	}
}

// prefers sets the preferred colour scheme of the browser.
func (b *browser) prefers(t *testing.T, scheme string) {
	t.Helper()
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	b.wants(t, "prefer "+scheme, chromedp.Do(b.ctx, tell(emulation.SetEmulatedMedia, media)))
}

// picture is a screenshot of the browser.
func (b *browser) picture(t *testing.T) image.Image {
	t.Helper()
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.wants(t, "take a picture", err)
	picture, err := png.Decode(bytes.NewReader(shot))
	b.wants(t, "read the picture", err)
	return picture
}

// colours measures an element in a picture: the luminance of its most frequent colour, 0 to 1, and
// the contrast to the colour that differs most from it.
func (b *browser) colours(t *testing.T, picture image.Image, selector string) (background, contrast float64) {
	t.Helper()
	sides, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]float64](
		`(({left, top, right, bottom}) => [left, top, right, bottom])(document.querySelector("`+selector+`").getBoundingClientRect())`))
	b.wants(t, "find "+selector, err)
	box := image.Rect(int(sides[0]), int(sides[1]), int(sides[2]), int(sides[3]))
	if box.Empty() || !box.In(picture.Bounds()) {
		t.Fatalf("%s is at %v, the picture at %v", selector, box, picture.Bounds())
	}
	often, seen := 0, map[float64]int{}
	for at := box.Min; at.Y < box.Max.Y; at = next(at, box) {
		l := luminance(picture, at)
		if seen[l]++; seen[l] > often {
			background, often = l, seen[l]
		}
	}
	for l := range seen {
		contrast = max(contrast, (max(l, background)+0.05)/(min(l, background)+0.05))
	}
	return background, contrast
}

// next is the pixel after a given one, row by row.
func next(at image.Point, within image.Rectangle) image.Point {
	if at.X++; at.X == within.Max.X {
		at = image.Pt(within.Min.X, at.Y+1)
	}
	return at
}

// luminance is the relative luminance of a pixel as WCAG defines it.
func luminance(picture image.Image, at image.Point) float64 {
	linear := func(part uint32) float64 {
		if c := float64(part) / 0xffff; c > 0.04045 {
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		return float64(part) / 0xffff / 12.92
	}
	r, g, b, _ := picture.At(at.X, at.Y).RGBA()
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
