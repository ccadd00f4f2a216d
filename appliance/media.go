package appliance

import (
	"slices"
	"strings"

	"hearth/appliance/upstream"
	"hearth/engine/infer"
)

// inlined is the request with the images that its caller named by URL in place of
// the URLs. They are fetched once for all targets, and only if the configuration
// allows it.
func (c *call) inlined() (*infer.Request, error) {
	if c.media != nil || c.mediaErr != nil {
		return c.media, c.mediaErr
	}
	c.media, c.mediaErr = c.fetchMedia()
	return c.media, c.mediaErr
}

func (c *call) fetchMedia() (*infer.Request, error) {
	conf := c.a.config().Media
	limits := upstream.FetchLimits{Allow: conf.Prefixes(), HTTP: conf.HTTP, MaxBytes: int64(conf.MaxBytes), Timeout: conf.Timeout.Std()}
	own := *c.request
	own.Wire = nil // its bytes have the URLs
	own.Messages = slices.Clone(own.Messages)
	own.Uses = slices.Clone(own.Uses)
	left, whole := conf.MaxCount, true
	for i := range own.Messages {
		m := &own.Messages[i]
		for k := range m.Content {
			if p := &m.Content[k]; !remoteImage(p) {
				whole = whole && (p.Type != "image" || p.URL == "")
				continue
			}
			if left--; left < 0 {
				return nil, infer.Invalid("messages", "cannot fetch more than %d images for a request", conf.MaxCount)
			}
			got, err := upstream.FetchMedia(c.ctx, m.Content[k].URL, limits)
			if err != nil {
				return nil, err
			}
			m.Content = slices.Clone(m.Content)
			m.Content[k].URL, m.Content[k].MIME, m.Content[k].Data = "", got.Type, got.Data
		}
	}
	for i := range own.Uses { // an image of another scheme is lost still
		if whole && own.Uses[i].Feature == infer.FeatureImageURL {
			own.Uses[i].Feature = infer.FeatureImageData
		}
	}
	return &own, nil
}

// remoteImage says that p is an image to be fetched.
func remoteImage(p *infer.Part) bool {
	return p.Type == "image" && (strings.HasPrefix(p.URL, "https://") || strings.HasPrefix(p.URL, "http://"))
}
