-- The finer name of a score, for a program of this id.
CREATE PERFETTO FUNCTION android_oom_adj_score_to_detailed_bucket_name(
  value LONG, android_appid LONG
) RETURNS STRING AS
SELECT coalesce(
  (SELECT column3 FROM (VALUES
    (-1000, -1000, 'native'),
    (-900, -900, 'system'),
    (-800, -800, 'persistent_proc'),
    (-700, -700, 'persistent_service'),
    (-600, -600, 'logcat'),
    (0, 0, 'foreground_app'),
    (50, 50, 'perceptible_foreground_app'),
    (100, 199, 'visible_app'),
    (200, 224, 'perceptible_app'),
    (225, 249, 'perceptible_medium_app'),
    (250, 299, 'perceptible_low_app'),
    (300, 399, 'backup'),
    (400, 499, 'heavy_weight_app'),
    (500, 599, 'service'),
    (600, 699, 'home_app'),
    (700, 799, 'previous_app'),
    (800, 899, 'service_b'),
    (900, 949, 'cached_app'),
    (950, 9223372036854775807, 'cached_app_lmk_first'))
   WHERE $value BETWEEN column1 AND column2),
  iif($android_appid IS NULL, 'unknown',
    iif($android_appid < 10000, 'unknown_native', 'unknown_app')));
