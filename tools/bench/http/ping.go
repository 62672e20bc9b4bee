package main

import (
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// servePing is what the endpoints are held against: gin, a reply of a few words, one line of slog for each request, and
// nothing behind it. It answers package stack as an instance of stock does, so that the same nginx.conf stands before
// it. It returns only an error: a signal ends the process.
func servePing(addr, instance string, log io.Writer) error {
	return http.ListenAndServe(addr, pinging(instance, log))
}

func pinging(instance string, log io.Writer) http.Handler {
	logger := slog.New(slog.NewJSONHandler(log, nil)).With("instance", instance)
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(func(c *gin.Context) {
		began := time.Now()
		c.Header("X-Instance", instance)
		c.Next()
		logger.LogAttrs(c.Request.Context(), slog.LevelInfo, "request",
			slog.String("method", c.Request.Method), slog.String("path", c.Request.URL.Path),
			slog.Int("status", c.Writer.Status()), slog.Duration("took", time.Since(began)),
			slog.String("request_id", c.GetHeader("X-Request-Id")))
	})
	router.POST("/ping", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"pong": true, "instance": instance}) })
	ready := func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{}) }
	router.GET("/readyz", ready)
	router.GET("/livez", ready)
	return router
}
