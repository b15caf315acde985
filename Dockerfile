# docker build -t memory .
# docker run --rm -v memory:/data memory limpet api-keys create phone --user alice
# docker run -p 127.0.0.1:8420:8420 -v memory:/data memory
FROM python:3.12-slim

COPY . /src
RUN pip install --no-cache-dir "/src[serve,encryption,postgres,pdf]" && rm -rf /src \
    && useradd --uid 10001 --user-group --create-home --shell /usr/sbin/nologin limpet \
    && install -d -o limpet -g limpet -m 0700 /data

USER limpet
ENV LIMPET_DATA=/data
VOLUME /data
EXPOSE 8420
STOPSIGNAL SIGTERM
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8420/health', timeout=3)"]
CMD ["limpet", "serve", "--host", "0.0.0.0"]
